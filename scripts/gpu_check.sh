#!/usr/bin/env bash
# For a machine with an NVIDIA GPU and nvcc: builds the CUDA kernels, compares each with its CPU
# version, and prints what was checked.
# usage: scripts/gpu_check.sh [BUILD_FOLDER]      (default: build-gpu)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build-gpu}

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .) || {
  echo "gpu_check: nvidia-smi finds no GPU; want a machine with an NVIDIA GPU and its driver" >&2
  exit 1
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

options=(-Dcuda=enabled "-Dgpu_arch=$architecture" -Dbenchmarks=false)
if [[ -e $build/build.ninja ]]; then
  meson configure "$build" "${options[@]}"
else
  meson setup "$build" "${options[@]}"
fi
ninja -C "$build" tests/kernels_test tests/tensor_test

# Without a device the comparisons would be skipped and still succeed.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$build/tests/kernels_test" --test-case='GPU:*' | tee "$log"
grep -qE 'test cases: +[1-9]' "$log" || {
  echo "gpu_check: nothing was compared; the CUDA runtime finds no device" >&2
  exit 1
}
"$build/tests/tensor_test" --test-case='*CUDA*'
"$build/tests/kernels_test" --list-test-cases --test-case='GPU:*' | sed -n 's/^GPU:/checked:/p'
