#!/usr/bin/env bash
# Runs a benchmark and the same work in PyTorch alternately, TURNS times (2; 7 if memory is the
# bound), and prints both with their ratio:
#   benchmarks/compare.sh vit_step --model vit_tiny_patch16_224 --batch 16
#   benchmarks/compare.sh all          # the table of docs/performance.md, as Markdown
#   benchmarks/compare.sh ranks        # its table of two ranks
#   benchmarks/compare.sh op_sweep     # every function by memory order and dtype; the slowest rows
# BUILD names the build folder (build), and PYTHON an interpreter with PyTorch (python3). RESULTS
# names a file; every result is appended to it as a line with a JSON object.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
python=${PYTHON:-python3}
results=${RESULTS:-$(mktemp)}

usage() {
  echo "usage: compare.sh NAME [options] | all | ranks | op_sweep [options]" >&2
  exit 2
}

ours() { "$build/benchmarks/$1" "${@:2}" --json >>"$results"; }

# Runs ours, theirs, ours, theirs. Each turn restarts both, because the host moves the cores within
# seconds, which changes the memory bandwidth.
pair() {
  local turns=2
  [[ $1 == optimizer_step ]] && turns=7
  for ((turn = 0; turn < ${TURNS:-$turns}; ++turn)); do
    ours "$@"
    "$python" "$root/benchmarks/peers/torch_peer.py" "$@" --json >>"$results"
  done
}

# Runs the same on two ranks with one thread each.
pair_of_ranks() {
  for ((turn = 0; turn < ${TURNS:-2}; ++turn)); do
    "$build/tools/booster" run --nproc_per_node 2 "$build/benchmarks/$1" "${@:2}" --json |
      sed 's/^\[0\] //' >>"$results"
    "$python" "$root/benchmarks/peers/torch_ranks.py" "$@" --json >>"$results"
  done
}

ranks() {
  for backend in shm gloo; do
    BOOSTER_BACKEND=$backend pair_of_ranks all_reduce --steps 25
  done
  for precision in fp32 bf16; do
    pair_of_ranks ddp_step --precision $precision
    pair_of_ranks ddp_step --plugin fsdp --precision $precision
    pair_of_ranks ddp_step --plugin tensor --heads 4 --precision $precision
    for style in 1f1b zero_bubble; do
      pair_of_ranks ddp_step --plugin pipeline --pp_style $style --precision $precision
    done
  done
}

# One thread each, unless an option says otherwise: then rows are CPU seconds, which a shared host
# disturbs least.
sweep() {
  for ((turn = 0; turn < ${TURNS:-2}; ++turn)); do
    ours op_sweep --threads 1 "$@"
    "$python" "$root/benchmarks/peers/op_sweep.py" --threads 1 "$@" >>"$results"
  done
}

everything() {
  local tiny=(--model vit_tiny_patch16_224)
  for precision in bf16 fp32; do
    pair vit_step --batch 8 --precision $precision
    pair vit_step "${tiny[@]}" --batch 16 --precision $precision
    pair linear_stack --precision $precision
    pair conv_stack --precision $precision
  done
  for optimizer in sgd sgd_momentum adamw adamw_fp16 clip; do
    pair optimizer_step --optimizer $optimizer
  done
  pair loader --workers 1
  for op in matmul relu; do pair op_overhead --op $op; done
  ours vit_step --batch 8 --threads 1 --steps 3
  for batch in 8 16 32; do ours vit_step "${tiny[@]}" --batch $batch; done
  for ((turn = 0; turn < ${TURNS:-2}; ++turn)); do
    for depth in 12 24 48; do ours vit_step "${tiny[@]}" --batch 16 --depth $depth; done
  done
  BUILD=$build "$root/benchmarks/start.sh" >>"$results"
}

[[ $# -ge 1 && $1 != -* ]] || usage
case $1 in
  all) everything ;;
  ranks) ranks ;;
  op_sweep)
    sweep "${@:2}"
    exec "$python" "$root/benchmarks/peers/op_sweep_table.py" "$results" --rows 40
    ;;
  *) pair "$@" ;;
esac
"$python" "$root/benchmarks/table.py" "$results"
