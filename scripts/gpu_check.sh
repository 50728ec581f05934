#!/usr/bin/env bash
# Checks booster on a machine with an NVIDIA GPU and times it there, in less than 8 minutes: all
# tests for GPUs, compute-sanitizer on small ones, a short training on the GPU beside the CPU's,
# training steps beside PyTorch's. Runs what scripts/gpu_bundle.sh has collected, or a build.
#   scripts/gpu_check.sh [--dry-run] [FROM] [RESULTS]
# FROM: a bundle or a build folder (gpu-bundle). RESULTS: a folder (gpu-results), which gets
# gpu_results.json and a log of each step. --dry-run: on the GPU that every machine has
# (tests/cuda_on_host) and without timings. Ends with 1 if a step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

dry_run=false
[[ ${1-} != --dry-run ]] || { dry_run=true && shift; }
from=${1:-gpu-bundle} results=${2:-gpu-results}
seconds_in_all=460
mkdir -p "$results"
results=$(realpath "$results")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- the programs
if [[ -e $from/programs.tar.xz ]]; then
  (cd "$from" && sha256sum --quiet -c programs.sha256)
  tar -C "$work" -xJf "$from/programs.tar.xz"
  export BOOSTER_GOLDEN=$work/golden
  libraries=$work/lib
elif [[ -e $from/build.ninja ]]; then
  mkdir "$work/bin" "$work/lib"
  build=$(realpath "$from")
  ln -s "$build"/{tests/*_test,benchmarks/vit_step,examples/vit_caltech101,booster/booster} \
    "$work/bin"
  ln -s "$build"/{kernels/cuda,tests/cuda_on_host}/*.so "$work/lib"
  git rev-parse HEAD > "$work/commit"
  libraries=
else
  echo "gpu_check: neither a bundle nor a build; got $from, want what gpu_bundle.sh wrote" >&2
  exit 2
fi
if $dry_run; then
  export BOOSTER_CUDA_MODULE=$work/lib/libbooster_cuda_on_host.so CUDA_ON_HOST_MEMORY=512
else
  export BOOSTER_CUDA_MODULE=$work/lib/libbooster_cuda.so
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader > "$work/card" || {
    echo "gpu_check: nvidia-smi finds no GPU; want a machine with an NVIDIA GPU and its driver" >&2
    exit 1
  }
fi
export BOOSTER_CUDA_POISON=1
# Only for our programs: PyTorch has libraries of its own.
ours() { LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }

# --- steps
entries=$work/entries failed=0
: > "$entries"
begin=$SECONDS
# step NAME SECONDS COMMAND...: runs it as long as it may, and notes how it went.
step() {
  local name=$1 limit=$2 status=0 left=$((seconds_in_all - SECONDS + begin)) start=$SECONDS
  shift 2
  local log=$results/${name// /_}.log
  if ((left < 5)); then
    echo "$name: no time was left"
    printf '{"step": "%s", "status": "no time"}\n' "$name" >> "$entries"
    return
  fi
  export -f ours
  export libraries
  timeout -k 5 $((limit < left ? limit : left)) "$@" > "$log" 2>&1 || status=$?
  local cases=null
  cases=$(awk '/^\[doctest\] test cases:/ { gsub(/[^0-9 ]/, " "); split($0, n, " ")
    printf "{\"passed\": %d, \"failed\": %d}", n[2], n[3] }' "$log")
  # A program that finds no GPU skips all and still succeeds.
  [[ $status != 0 || ! $cases =~ '"passed": 0, "failed": 0' ]] || status=77
  ((status == 0)) || failed=1
  local verdict=passed
  ((status == 0)) || verdict="FAILED ($status)"
  echo "$name: $verdict, $((SECONDS - start)) s"
  printf '{"step": "%s", "status": %d, "seconds": %d, "cases": %s}\n' \
    "$name" "$status" $((SECONDS - start)) "${cases:-null}" >> "$entries"
}

tests() { ours "$work/bin/$1_test" "-tc=$2"; }
# The losses of a short training on a device, a line each.
losses() {
  local set settings=(device="$1" train.output_dir="$work/out_$1" train.max_steps=6
    train.log_every=1 data.batch_size=8 data.root=null model.name=vit_tiny_patch16_224
    model.depth=2 model.img_size=32)
  for set in "${settings[@]}"; do set -- "$@" --set "$set"; done
  ours "$work/bin/vit_caltech101" "${@:2}"
  grep -o '"loss":[0-9.eE+-]*' "$work/out_$1/metrics.jsonl" > "$work/losses_$1"
}
same_losses() {
  losses cpu && losses cuda
  paste -d: "$work/losses_cpu" "$work/losses_cuda" | awk -F: '
    { apart = ($2 - $4) / $2; if (apart < 0) apart = -apart; print }
    apart > worst { worst = apart }
    END { printf "%d steps, worst %.1e\n", NR, worst; exit !(NR > 0 && worst < 1e-4) }'
}
sanitizer() {
  ours compute-sanitizer --tool "$1" --error-exitcode 9 "$work/bin/kernels_test" "-tc=$2"
}
# Both print one JSON object, which is kept.
timing() {
  local batch=$1 model=$2 precision=$3 options=(--device cuda --steps 20 --json)
  options+=(--model "$model" --batch "$batch" --precision "$precision")
  ours env -u BOOSTER_CUDA_POISON "$work/bin/vit_step" "${options[@]}" | tee -a "$work/timings"
  python3 benchmarks/peers/torch_peer.py vit_step "${options[@]}" | tee -a "$work/timings"
}
export -f tests losses same_losses sanitizer timing
export work

step doctor 30 bash -c 'ours "$work/bin/booster" doctor --json'
for room in kernels autograd nn parallel spread; do
  step "tests of $room" 150 bash -c "tests $room '*GPU*'"
done
step "tests of tensor" 60 bash -c "tests tensor '*CUDA*'"
step "training beside the CPU" 120 bash -c same_losses
if ! $dry_run; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer $tool" 60 bash -c "sanitizer $tool 'GPU: *soft*,GPU: *pool*,GPU: *sum*'"
  done
  for precision in fp32 bf16 fp16; do
    step "ViT-Ti in $precision" 40 bash -c "timing 16 vit_tiny_patch16_224 $precision"
    step "ViT-B in $precision" 40 bash -c "timing 8 vit_base_patch16_224 $precision"
  done
fi

# --- results
{
  printf '{"date": "%s", "commit": "%s", "dry_run": %s,\n' "$(date -u +%FT%TZ)" \
    "$(tr '\n' ' ' < "$work/commit" | sed 's/ $//')" "$dry_run"
  printf ' "card": "%s",\n' "$($dry_run && echo none || head -n 1 "$work/card")"
  printf ' "seconds": %d,\n "steps": [\n  ' $((SECONDS - begin))
  paste -sd, "$entries" | sed 's/},{/},\n  {/g'
  printf ' ],\n "timings": [\n  '
  [[ ! -e $work/timings ]] || paste -sd, "$work/timings" | sed 's/},{"benchmark/},\n  {"benchmark/g'
  printf ' ]}\n'
} > "$results/gpu_results.json"
echo "results in $results/gpu_results.json"
exit "$failed"
