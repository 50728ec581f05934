#!/usr/bin/env bash
# Runs scripts/gpu_check.sh with fake programs and a fake GPU. Failures on the GPU's machine must
# make it fail, and it must report missing parts.
# usage: gpu_check.sh ROOT
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- both scripts run the GPU tests of every layer that has some
for folder in $(grep -rl 'TEST_CASE("GPU: ' "$root/tests" --include='*.cpp' |
  sed "s|$root/tests/||; s|/.*||" | sort -u); do
  [[ $folder != plugins ]] || folder=spread
  for list in "on_device = [^]]*'$folder'@tests/meson.build" \
    "together [^\n]* tests [^\n]*\b$folder\b@scripts/gpu_check.sh"; do
    grep -qzP "${list%@*}" "$root/${list#*@}" || { echo "${list#*@} lacks $folder" && exit 1; }
  done
done

# --- a build folder
build=$work/build
mkdir -p "$build"/{tests/cuda_on_host,benchmarks,examples,tools,kernels/cuda} "$work/tools"
touch "$build"/{build.ninja,kernels/cuda/libbooster_cuda.so,tests/cuda_on_host/libplayed.so}
play() {  # PROGRAM TEXT
  printf '#!/usr/bin/env bash\n%s\n' "$2" > "$1"
  chmod +x "$1"
}
for room in kernels tensor autograd data nn optim booster parallel spread; do
  play "$build/tests/${room}_test" \
    '[[ $CRASH != "$(basename "$0")" ]] || kill -SEGV $$
     echo "[doctest] test cases:  3 | ${PASSED:-3} passed | 0 failed | 0 skipped"'
done
play "$build/tools/booster" \
  'echo "{\"cuBLASLt\":\"${BLAS:-13.0.0, products}\",\"cuDNN\":\"${DNN:-9}\",\"NCCL\":\"off: no\"}"'
play "$build/examples/vit_caltech101" '
  for set; do [[ $set != train.output_dir=* ]] || out=${set#*=}; done
  [[ $out == *cuda ]] || LOSS=2
  mkdir -p "$out" && echo "{\"loss\":${LOSS:-2}}" > "$out/metrics.jsonl"'
for program in vit_step conv_stack; do
  play "$build/benchmarks/$program" '[[ $CRASH != "$(basename "$0")" ]] || kill -SEGV $$
    echo "{\"benchmark\": \"ours\"}"'
done
# --- tools of the machine
play "$work/tools/nvidia-smi" 'echo "Played GPU, 580, 80 GB"'
play "$work/tools/python3" '
  case $* in *sysconfig*) echo /packages ;; *torch.version*) echo 13.0 ;; *torch*__*) echo 2.11 ;;
    *) echo "{\"benchmark\": \"theirs\"}" ;; esac'
play "$work/tools/compute-sanitizer" '
  [[ -z $REFUSES ]] || { echo "Error: Device not supported"; exit 1; }
  [[ $1 != --version ]] || { echo "Version 2025.3"; exit; }
  [[ $2 != "$FINDS" ]] || exit 9
  [[ $2 != "$HANGS" ]] || exit 124
  "${@:5}"'

export CRASH='' REFUSES='' FINDS='' HANGS='' PATH=$work/tools:$PATH
check() {  # STATUS WORDS...: its exit status and words of its result
  local want=$1 status=0 words
  bash "$root/scripts/gpu_check.sh" "$build" "$work/results" > "$work/said" 2>&1 || status=$?
  [[ $status == "$want" ]] || {
    echo "got status $status, want $want:" && cat "$work/said" && exit 1
  }
  for words in "${@:2}"; do
    grep -qF "$words" "$work/results/gpu_results.json" || {
      echo "the result lacks: $words" && cat "$work/results/gpu_results.json" && exit 1
    }
  done
}

check 0 '"card": "Played GPU, 580, 80 GB"' '"torch": "2.11", "CUDA of torch": "13.0"' \
  '"compute-sanitizer": "Version 2025.3"' '"cuBLASLt":"13.0.0, products"' \
  '"step": "tests of data", "status": 0' \
  '"step": "tests of a full card", "status": 0' '"cases": {"passed": 6, "failed": 0}' \
  '"step": "compute-sanitizer racecheck", "status": 0' \
  '{"benchmark": "ours"}' '{"benchmark": "theirs"}'
if grep FAILED "$work/results/gpu_results.json"; then exit 1; fi
! command -v jq > /dev/null || jq -e '.timings | length == 14' "$work/results/gpu_results.json"
CRASH=vit_step check 1 '"step": "vit_tiny_patch16_224 of 16 in bf16", "status": 139'
CRASH=nn_test check 1 '"step": "tests of nn", "status": 139'
PASSED=0 check 1 '"step": "tests of kernels", "status": 77'
BLAS='off: not found' check 1 '"step": "cuBLASLt and cuDNN are used", "status": 1'
DNN='off: not found' check 1 '"step": "cuBLASLt and cuDNN are used", "status": 1'
LOSS=3 check 1 '"step": "training beside the CPU", "status": 1'
FINDS=racecheck check 1 '"step": "compute-sanitizer racecheck", "status": 9'
HANGS=racecheck check 0 '"verdict": "not finished, nothing found so far"'
REFUSES=yes check 0 'not run, it does not work here: Error: Device not supported'
rm "$work/tools/nvidia-smi"
command -v nvidia-smi > /dev/null || check 1
echo "gpu_check fails where it should"
