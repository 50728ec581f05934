#!/bin/sh
# Runs a benchmark and the same work in PyTorch in turn, twice, and prints both with their ratio:
#   benchmarks/compare.sh vit_step --model vit_tiny_patch16_224 --batch 16
#   benchmarks/compare.sh all          # the table of docs/performance.md, as Markdown
# BUILD names the build folder (build), PYTHON an interpreter that has PyTorch (python3).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
python=${PYTHON:-python3}

usage() {
  echo "usage: compare.sh NAME [options] | all" >&2
  exit 2
}

# Both results of both programs, one JSON object a line: ours, theirs, ours, theirs.
run_in_turn() {
  name=$1
  shift
  for turn in 1 2; do
    "$build/benchmarks/$name" "$@" --json
    "$python" "$root/benchmarks/peers/torch_peer.py" "$name" "$@" --json
  done
}

# One Markdown row: the better run of each, so that a disturbance in one of them does not count.
print_row() {
  "$python" -c '
import json, sys
runs = [json.loads(line) for line in sys.stdin]
ours, theirs = (min(runs[i::2], key=lambda run: run["seconds"]) for i in (0, 1))
share = lambda run: "{:.2f}".format(run["of_bound"]) if "of_bound" in run else "-"
print("| {} | {:.4g} s | {:.4g} s | {:.2f} x | {} | {} |".format(
    ours["work"], ours["seconds"], theirs["seconds"], theirs["seconds"] / ours["seconds"],
    share(ours),
    "{:.2f}".format(theirs["gflops"] / ours["bound_gflops"]) if "bound_gflops" in ours else "-"))
'
}

print_head() {
  echo "| work | booster | PyTorch | faster | of oneDNN's bound | PyTorch of the same bound |"
  echo "|---|---|---|---|---|---|"
}

compare() {
  results=$(run_in_turn "$@")
  echo "$results" | print_row
}

compare_all() {
  for precision in bf16 fp32; do
    compare vit_step --batch 8 --precision $precision
    compare vit_step --model vit_tiny_patch16_224 --batch 16 --precision $precision
    compare linear_stack --precision $precision
    compare conv_stack --precision $precision
  done
  for optimizer in sgd sgd_momentum adamw clip; do
    compare optimizer_step --optimizer $optimizer
  done
  compare loader --workers 1
  compare op_overhead --op matmul
  compare op_overhead --op relu
}

[ $# -ge 1 ] || usage
case $1 in -*) usage ;; esac
print_head
if [ "$1" = all ]; then compare_all; else compare "$@"; fi
