#!/usr/bin/env bash
# Checks that four ranks of mpirun end with the same weights, bit for bit, in every layout of the
# model. Uses MPI, shared memory and the ranks' own choice.
# usage: mpi.sh GPT2_TEXT
set -euo pipefail
program=$1

skip() {
  echo "skipped: $1"
  exit 77
}
command -v mpirun >/dev/null || skip "no mpirun (openmpi-bin)"
# In containers, processes may not read each other's memory, which Open MPI notices late.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe -np 4 true >/dev/null 2>&1 ||
  skip "mpirun does not start four processes here"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for _ in {1..60}; do printf 'the quick brown fox jumps over the lazy dog. '; done > "$folder/text"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=detect_leaks=0  # Open MPI's own

# trained BACKEND [settings]: prints a sum of the weights. BACKEND "": the ranks choose.
trained() {
  local backend=() sets=()
  [[ -z $1 ]] || backend=("BOOSTER_BACKEND=$1")
  shift
  for set in "$@"; do sets+=(--set "$set"); done
  rm -rf "$folder/out"
  env -u BOOSTER_BACKEND "${backend[@]}" timeout -k 5 120 \
    mpirun --allow-run-as-root --oversubscribe -np 4 "$program" \
    --set data.file="$folder/text" --set train.output_dir="$folder/out" --set train.max_steps=3 \
    --set model.name=gpt2 --set model.n_positions=32 --set model.n_embd=32 \
    --set model.n_layer=2 --set model.n_head=2 --set data.tokens=32 --set data.batch_size=4 \
    "${sets[@]}" > "$folder/log" 2>&1 || return
  sha256sum < "$folder/out/checkpoint/step-000000003/model.safetensors"
}

layouts=(booster.plugin=torch_ddp booster.plugin=low_level_zero booster.plugin=fsdp
  'booster.plugin={"name": "hybrid_parallel", "tp_size": 2, "pp_size": 2}')
for layout in "${layouts[@]}"; do
  shm=$(trained shm "$layout") || { cat "$folder/log"; exit 1; }
  mpi=$(trained mpi "$layout") || {
    grep -q "no such backend" "$folder/log" && skip "built without MPI"
    cat "$folder/log"
    exit 1
  }
  own=$(trained "" "$layout") || { cat "$folder/log"; exit 1; }
  echo "$layout: $mpi"
  [[ $shm == "$mpi" && $shm == "$own" ]] ||
    { echo "over shared memory: $shm; without BOOSTER_BACKEND: $own"; exit 1; }
done

# A killed mpirun cannot end its ranks; they see that it is gone.
BOOSTER_BACKEND=shm mpirun --allow-run-as-root --oversubscribe -np 2 "$program" \
  --set booster.plugin=torch_ddp \
  --set data.file="$folder/text" --set train.output_dir="$folder/orphans" \
  --set train.epochs=1000000 --set model.name=gpt2 --set model.n_positions=32 \
  --set model.n_embd=32 --set model.n_layer=2 --set model.n_head=2 --set data.tokens=32 \
  --set train.log_every=1 > "$folder/log" 2>&1 &
launcher=$!
ranks() { pgrep -f -- "train.output_dir=$folder/orphans" | grep -vx "$launcher" || true; }
for _ in {1..300}; do [[ ! -s $folder/orphans/metrics.jsonl ]] || break; sleep 0.1; done
[[ -n $(ranks) ]] || { cat "$folder/log"; exit 1; }
kill -9 "$launcher"
for _ in {1..100}; do [[ -n $(ranks) ]] || break; sleep 0.1; done
mapfile -t orphans < <(ranks)
((${#orphans[@]} == 0)) || {
  echo "ranks train on without mpirun: ${orphans[*]}"
  kill -9 "${orphans[@]}"
  exit 1
}
echo "ranks end with a killed mpirun"
