#!/usr/bin/env bash
# Checks and times booster on a machine with an NVIDIA GPU, in at most 8 minutes. Runs all tests for
# GPUs, and small ones under compute-sanitizer. Compares a short training with the CPU's, and
# training steps with PyTorch's. Runs a bundle of scripts/gpu_bundle.sh, or a build. Finds NVIDIA's
# libraries in the system or in Python's packages.
#   scripts/gpu_check.sh [--dry-run] [FROM] [RESULTS]
# FROM: a bundle or a build folder (gpu-bundle). RESULTS: a folder (gpu-results), which gets
# gpu_results.json and a log of each step. --dry-run: on the CPU emulator of CUDA
# (tests/cuda_on_host), the first tests of each layer, without timings. Exits with 1 if a step
# failed.
set -euo pipefail
cd "$(dirname "$0")/.."

dry_run=false
[[ ${1-} != --dry-run ]] || { dry_run=true && shift; }
from=${1:-gpu-bundle} results=${2:-gpu-results}
seconds_in_all=480
mkdir -p "$results"
results=$(realpath "$results")
rm -f "$results"/*.log
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$SECONDS

# --- the programs
if [[ -e $from/programs.tar.xz ]]; then
  (cd "$from" && sha256sum --quiet -c programs.sha256)
  if command -v xz > /dev/null; then
    tar -C "$work" -xJf "$from/programs.tar.xz"
  else
    python3 -m tarfile -e "$from/programs.tar.xz" "$work"
  fi
  export BOOSTER_GOLDEN=$work/golden
  libraries=$work/lib
elif [[ -e $from/build.ninja ]]; then
  mkdir "$work/bin" "$work/lib"
  build=$(realpath "$from")
  ln -s "$build"/{tests/*_test,benchmarks/{vit_step,conv_stack}} "$work/bin"
  ln -s "$build"/{examples/vit_caltech101,tools/booster} "$work/bin"
  ln -s "$build"/{kernels/cuda,tests/cuda_on_host}/*.so "$work/lib"
  git rev-parse HEAD > "$work/commit" 2>/dev/null || echo "unknown" > "$work/commit"
  libraries=
else
  echo "gpu_check: neither a bundle nor a build; got $from, want one of gpu_bundle.sh" >&2
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
if python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2> /dev/null); then
  export BOOSTER_CUDA_LIBRARIES=$python${BOOSTER_CUDA_LIBRARIES:+:$BOOSTER_CUDA_LIBRARIES}
fi
# Only for our programs: PyTorch has libraries of its own.
ours() { LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }

# --- steps
entries=$work/entries planned=0 counting=false
: > "$entries"
export work dry_run libraries
# note NAME STATUS SECONDS CASES WORD
note() {
  printf '{"step": "%s", "status": %d, "seconds": %d, "cases": %s, "verdict": "%s"}\n' "$@" \
    >> "$entries"
  echo "$1: $5, $3 s"
}
# step NAME SECONDS COMMAND...: runs the command for at most SECONDS, and notes the result.
step() {
  local name=$1 limit=$2 status=0 left=$((seconds_in_all - SECONDS + begin)) start=$SECONDS
  shift 2
  if $counting; then ((planned += limit)) || true && return; fi
  local log=$results/${name// /_}.log cases verdict=passed
  if ((left < 5)); then
    note "$name" 124 0 null "no time was left" && touch "$work/failed"
    return
  fi
  timeout -k 5 $((limit < left ? limit : left)) "$@" > "$log" 2>&1 || status=$?
  cases=$(awk '/^\[doctest\] test cases:/ { gsub(/[^0-9 ]/, " "); split($0, n, " ")
      ++programs; passed += n[2]; failed += n[3] }
    END { if (programs) printf "{\"passed\": %d, \"failed\": %d}", passed, failed }' "$log")
  # A program that finds no GPU skips all and still succeeds.
  [[ $status != 0 || ! $cases =~ '"passed": 0, "failed": 0' ]] || status=77
  if ((status == 124)) && is_clean_so_far "$name" "$log"; then
    verdict="not finished, nothing found so far"
  elif ((status != 0)); then
    verdict="FAILED ($status)" && touch "$work/failed"
  fi
  note "$name" "$status" $((SECONDS - start)) "${cases:-null}" "$verdict"
}
# compute-sanitizer prints each finding at once; its speed depends on the card.
is_clean_so_far() {  # NAME LOG
  [[ $1 == compute-sanitizer* ]] && ! grep -qE '^=+ *(Invalid|Error|Race|Program hit)' "$2"
}
# together SECONDS FUNCTION ARGUMENTS...: runs `FUNCTION ARGUMENT` for all arguments in parallel,
# each for at most SECONDS.
together() {
  local limit=$1 each
  if $counting; then ((planned += limit)) || true && return; fi
  for each in "${@:3}"; do step "$2 of $each" "$limit" bash -c "$2 $each" & done
  wait
}

# In a dry run only runs a layer's first tests; the suites *_on_device run all, which takes longer.
tests() {
  local some=()
  ! $dry_run || some=(--last=2)
  ours "$work/bin/$1_test" '-tc=*GPU*,*CUDA*' '-tce=GPU alone*' "${some[@]}"
}
# Tests that fill the memory of the card.
tests_alone() {
  local layer
  for layer in autograd tensor; do ours "$work/bin/${layer}_test" '-tc=GPU alone*' || return; done
}
# Collects the programs' own reports. Products and convolutions must not fall back to slow kernels.
doctor() {
  ours "$work/bin/booster" doctor --json > "$work/doctor.json" && cat "$work/doctor.json"
}
uses_libraries() {
  ! grep -oE '"(cuBLASLt|cuDNN)":"off[^"]*"' "$work/doctor.json" || return 1
  ! grep -E 'cuBLASLt was not found|cuDNN (was not found|does not start)' "$results"/*.log
}
# Prints the losses of a short training on a device, one per line.
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
# On some machines compute-sanitizer has no access to the GPU: there it fails although the program
# works.
sanitizer_works() { sanitizer memcheck 'GPU: an operand that lies on the CPU is an error'; }
sanitizers() {
  local tool cases='GPU: *soft*,GPU: *pool*,GPU: *sum*,GPU: copies*,GPU: *GELU*'
  if $counting || timeout -k 5 20 bash -c sanitizer_works > "$results/sanitizer.log" 2>&1; then
    for tool in memcheck racecheck; do
      step "compute-sanitizer $tool" 30 bash -c "sanitizer $tool '$cases'"
    done
  else
    note compute-sanitizer 0 0 null \
      "not run, it does not work here: $(tail -n 1 "$results/sanitizer.log" |
        tr -dc '[:alnum:] .:')"
  fi
}
theirs() { "$@"; }
# Keeps one JSON object; an error of the program is an error of the step.
timing() {
  local out=$work/timing_$$
  "$1" env -u BOOSTER_CUDA_POISON "${@:2}" --device cuda --steps 20 --json > "$out" || return
  tail -n 1 "$out" | tee -a "$work/timings" | grep '^{'
}
timings() {  # PROGRAM MODEL BATCH PRECISION
  local options="--model $2 --batch $3 --precision $4"
  step "$2 of $3 in $4" 10 bash -c "timing ours $work/bin/$1 $options"
  step "$2 of $3 in $4 by PyTorch" 20 \
    bash -c "timing theirs python3 benchmarks/peers/torch_peer.py $1 $options"
}
all_steps() {
  step doctor 20 bash -c doctor
  together 100 tests kernels tensor autograd data nn optim booster parallel spread
  step "tests of a full card" 20 bash -c tests_alone
  step "training beside the CPU" 40 bash -c same_losses
  step "cuBLASLt and cuDNN are used" 5 bash -c uses_libraries
  if ! $dry_run; then
    sanitizers
    for precision in fp32 bf16 fp16; do timings vit_step vit_base_patch16_224 8 $precision; done
    timings vit_step vit_base_patch16_224 64 bf16
    timings vit_step vit_tiny_patch16_224 16 bf16
    for precision in fp32 bf16; do timings conv_stack resnet20 1024 $precision; done
  fi
}
export -f ours tests tests_alone doctor uses_libraries losses same_losses sanitizer sanitizer_works
export -f timing theirs
export results

counting=true && all_steps && counting=false
((planned + 20 <= seconds_in_all)) || {
  echo "gpu_check: too long; got $planned s, want at most $((seconds_in_all - 20)) s" >&2
  exit 2
}
# The first import reads some GB.
$dry_run || timeout 120 python3 -c 'import torch, timm' > /dev/null 2>&1 &
all_steps

# --- results
version_of() { "$@" 2> /dev/null | head -n 1 | tr -dc '[:alnum:] .,:+_-' || true; }
from_torch() { python3 -c "import torch; print($1)"; }
{
  printf '{"date": "%s", "commit": "%s", "dry_run": %s,\n' "$(date -u +%FT%TZ)" \
    "$(tr '\n' ' ' < "$work/commit" | sed 's/ $//')" "$dry_run"
  printf ' "card": "%s",\n' "$($dry_run && echo none || head -n 1 "$work/card")"
  printf ' "versions": {"torch": "%s", "CUDA of torch": "%s", "compute-sanitizer": "%s"},\n' \
    "$(version_of from_torch torch.__version__)" "$(version_of from_torch torch.version.cuda)" \
    "$(compute-sanitizer --version 2> /dev/null | grep -o 'Version.*' || true)"
  # cuBLASLt, cuDNN, NCCL and the machine
  printf ' "doctor": %s,\n' "$(tail -n 1 "$work/doctor.json" 2> /dev/null | grep '^{' || echo null)"
  printf ' "seconds": %d,\n "steps": [\n  ' $((SECONDS - begin))
  paste -sd, "$entries" | sed 's/},{/},\n  {/g'
  printf ' ],\n "timings": [\n  '
  [[ ! -e $work/timings ]] || paste -sd, "$work/timings" | sed 's/},{"benchmark/},\n  {"benchmark/g'
  printf ' ]}\n'
} > "$results/gpu_results.json"
echo "results in $results/gpu_results.json"
[[ ! -e $work/failed ]]
