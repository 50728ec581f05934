#!/usr/bin/env bash
# Collects the files that scripts/gpu_check.sh runs on a machine with a GPU. That machine needs no
# compiler and none of our packages: the bundle has the programs, the CUDA module and its libraries,
# without symbols.
#   scripts/gpu_bundle.sh [BUNDLE] [BUILD]
# BUNDLE: the folder to write (gpu-bundle), with one archive and its checksum; BUILD: build. The
# machine needs this glibc or a newer one. BUNDLE_COMPRESSION: -6, as xz takes it.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=${1:-gpu-bundle} build=${2:-build}
most_megabytes=60

programs=(
  tests/kernels_test tests/tensor_test tests/autograd_test tests/data_test tests/nn_test
  tests/optim_test tests/booster_test tests/parallel_test tests/spread_test
  benchmarks/vit_step benchmarks/conv_stack
  examples/vit_caltech101 tools/booster
)
modules=(kernels/cuda/libbooster_cuda.so tests/cuda_on_host/libbooster_cuda_on_host.so)
[[ -e $build/build.ninja ]] || meson setup "$build" -Dcuda=enabled
ninja -C "$build" "${programs[@]}" "${modules[@]}"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/bin" "$stage/lib"
for program in "${programs[@]}"; do strip -o "$stage/bin/${program##*/}" "$build/$program"; done
for module in "${modules[@]}"; do strip -o "$stage/lib/${module##*/}" "$build/$module"; done
# All libraries except the loader's own, which belong to the machine's glibc.
ldd "${programs[@]/#/$build/}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' |
  while read -r library; do strip -o "$stage/lib/${library##*/}" "$library"; done
cp -r tests/golden "$stage/golden"
git rev-parse HEAD > "$stage/commit"
git diff --quiet HEAD || echo "and changes" >> "$stage/commit"

mkdir -p "$bundle"
tar -C "$stage" -c . | xz -T0 "${BUNDLE_COMPRESSION:--6}" > "$bundle/programs.tar.xz.part"
mv "$bundle/programs.tar.xz.part" "$bundle/programs.tar.xz"
(cd "$bundle" && sha256sum programs.tar.xz > programs.sha256)
megabytes=$(($(stat -c %s "$bundle/programs.tar.xz") / 1000000))
echo "$bundle: $megabytes MB"
((megabytes < most_megabytes)) || {
  echo "gpu_bundle: too large; got $megabytes MB, want less than $most_megabytes" >&2
  exit 1
}
