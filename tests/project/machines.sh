#!/usr/bin/env bash
# Two network namespaces as two machines with two ranks each: what they train has the bits of four
# ranks on one machine, over a network that delays, drops and reorders, too; and when the network
# goes away, both sides end with an error that says so, and leave nothing behind.
# usage: machines.sh BOOSTER GPT2_TEXT
set -euo pipefail
booster=$1 program=$2

skip() {
  echo "skipped: $1"
  exit 77
}
command -v ip >/dev/null || skip "no ip (iproute2) to make network namespaces with"
id=$$
ip netns add "bt$id-0" 2>/dev/null || skip "no right to make network namespaces"
folder=$(mktemp -d)
finish() {
  for node in 0 1; do
    ip netns pids "bt$id-$node" 2>/dev/null | xargs -r kill -9 || true
    ip netns del "bt$id-$node" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap finish EXIT
fail() {
  echo "failed: $1"
  tail -n 15 "$folder"/*.log
  exit 1
}

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

# train NAME PLUGIN STEPS [run's options]
train() {
  local name=$1 plugin=$2 steps=$3
  shift 3
  "$booster" run --nproc_per_node 2 "$@" "$program" \
    --set data.file="$folder/text" --set train.output_dir="$folder/$name" \
    --set booster.plugin="$plugin" --set train.max_steps="$steps" --set train.epochs=100000 \
    --set model.name=gpt2 --set model.n_positions=32 --set model.n_embd=32 \
    --set model.n_layer=2 --set model.n_head=2 \
    --set data.tokens=32 --set data.batch_size=2 --set train.log_every=1 \
    --set train.checkpoint_every=1000000
}
on_two_machines() {
  local status=0 pids=()
  for node in 0 1; do
    ip netns exec "bt$id-$node" bash -c "$(declare -f train); booster=$booster program=$program
      folder=$folder; train $* --nnodes 2 --node_rank $node --master_addr 10.77.0.1" \
      > "$folder/$1-$node.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return "$status"
}
losses() { grep -o '"loss":[^,}]*' "$folder/$1/metrics.jsonl"; }

for plugin in torch_ddp fsdp; do
  train "one-$plugin" "$plugin" 6 --nproc_per_node 4 > "$folder/one-$plugin.log" 2>&1 ||
    fail "four ranks on one machine with $plugin"
  on_two_machines "two-$plugin" "$plugin" 6 || fail "two machines with $plugin"
  [[ $(losses "one-$plugin") == $(losses "two-$plugin") ]] ||
    fail "$plugin: two machines have other losses than one"
done

hamper_network() {
  for node in 0 1; do
    ip netns exec "bt$id-$node" tc qdisc add dev "v$id-$node" root netem delay 10ms 5ms loss 1% \
      reorder 20% 2>/dev/null || return 1
  done
}
if hamper_network; then
  on_two_machines hampered torch_ddp 6 || fail "a network that delays, drops and reorders"
  [[ $(losses one-torch_ddp) == $(losses hampered) ]] ||
    fail "other losses over a network that delays, drops and reorders"
else
  echo "this kernel has no netem: a network that delays, drops and reorders was not tried"
fi

export BOOSTER_HEARTBEAT=3
on_two_machines cut torch_ddp 1000000 &
both=$!
for _ in {1..300}; do
  [[ $(wc -l < "$folder/cut/metrics.jsonl" 2>/dev/null || echo 0) -lt 3 ]] || break
  sleep 0.1
done
ip -n "bt$id-0" link set "v$id-0" down
start=$SECONDS
wait "$both" && fail "a network that went away was no error"
((SECONDS - start <= 10 + 3)) || fail "the error took $((SECONDS - start)) s"
for node in 0 1; do
  grep -q "has shown no sign of life for 3 s (BOOSTER_HEARTBEAT)" "$folder/cut-$node.log" ||
    fail "machine $node does not say what happened"
  [[ -z $(ip netns pids "bt$id-$node") ]] || fail "processes are left on machine $node"
done
echo "two machines train as one"
