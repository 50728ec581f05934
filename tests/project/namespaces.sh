# Makes two network namespaces as two machines, and trains a small GPT-2 on them. Tests that need
# several machines source this file, set booster and program, and call make_machines.

skip() {
  echo "skipped: $1"
  exit 77
}
fail() {
  echo "failed: $1"
  tail -n 15 "$folder"/*.log
  exit 1
}

id=$$
folder=$(mktemp -d)
address=10.77.0.1  # of the first machine: MASTER_ADDR
# Uses the shell's own kill, because a small system has no such program.
end_processes_on() {
  local processes
  mapfile -t processes < <(ip netns pids "bt$id-$1" 2>/dev/null)
  ((${#processes[@]} == 0)) || kill -9 "${processes[@]}" 2>/dev/null || true
}
finish() {
  for node in 0 1; do
    end_processes_on "$node"
    ip netns del "bt$id-$node" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap finish EXIT

make_machines() {
  command -v ip >/dev/null || skip "no ip (iproute2) to make network namespaces with"
  ip netns add "bt$id-0" 2>/dev/null || skip "no right to make network namespaces"
  ip netns add "bt$id-1"
  ip link add "v$id-0" netns "bt$id-0" type veth peer name "v$id-1" netns "bt$id-1"
  for node in 0 1; do
    ip -n "bt$id-$node" addr add "10.77.0.$((node + 1))/24" dev "v$id-$node"
    ip -n "bt$id-$node" link set "v$id-$node" up
    ip -n "bt$id-$node" link set lo up
  done
  for _ in {1..60}; do printf 'the quick brown fox jumps over the lazy dog. '; done > "$folder/text"
  export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
  BOOSTER_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
  export BOOSTER_SECRET
}

# Sets the array `words` to the command that starts the training NAME for STEPS steps. More options
# of the run tool follow.
words_of() {
  local name=$1 plugin=$2 steps=$3
  shift 3
  words=("$booster" run --nproc_per_node 2 "$@" "$program"
    --set data.file="$folder/text" --set train.output_dir="$folder/$name"
    --set booster.plugin="$plugin" --set train.max_steps="$steps" --set train.epochs=100000
    --set model.name=gpt2 --set model.n_positions=32 --set model.n_embd=32
    --set model.n_layer=2 --set model.n_head=2
    --set data.tokens=32 --set data.batch_size=2 --set train.log_every=1
    --set train.sample_tokens=0
    --set train.checkpoint_every="${checkpoint_every:-1000000}")
}
# train_on NODE NAME PLUGIN STEPS [options]: replaces this shell by one machine's run tool.
train_on() {
  local node=$1
  shift
  words_of "$@" --nnodes 2 --node_rank "$node" --master_addr "$address"
  exec ip netns exec "bt$id-$node" "${words[@]}"
}
# train_on_two NAME PLUGIN STEPS [options]: waits for both, and fails if one fails.
train_on_two() {
  local status=0 pids=()
  for node in 0 1; do
    train_on "$node" "$@" > "$folder/$1-$node.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return "$status"
}
train_on_one() {
  words_of "$@" --nproc_per_node 4
  "${words[@]}" > "$folder/$1.log" 2>&1
}
losses() { grep -o '"loss":[^,}]*' "$folder/$1/metrics.jsonl"; }
no_processes_are_left() { [[ -z $(ip netns pids "bt$id-0")$(ip netns pids "bt$id-1") ]]; }
