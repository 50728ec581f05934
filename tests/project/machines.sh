#!/usr/bin/env bash
# Uses two network namespaces as two machines with two ranks each. Their training has the bits of
# four ranks on one machine. They send less if the ranks of a machine share memory. The run tools
# restart all ranks when one has failed, and none when a tool is gone. When the network fails, both
# sides end with an error about it and leave nothing behind.
# usage: machines.sh BOOSTER GPT2_TEXT
set -euo pipefail
booster=$1 program=$2
. "$(dirname "$0")/namespaces.sh"
make_machines

# Prints the bytes that a machine has sent.
sent_by() { ip netns exec "bt$id-$1" cat "/sys/class/net/v$id-$1/statistics/tx_bytes"; }

# The axis tensor has the ranks of one machine, pipeline the ranks of both.
hybrid='{"name": "hybrid_parallel", "tp_size": 2, "pp_size": 2}'
for plugin in torch_ddp low_level_zero fsdp "$hybrid"; do
  kind=$plugin
  [[ $plugin != "$hybrid" ]] || kind=hybrid_parallel
  train_on_one "one-$kind" "$plugin" 6 || fail "four ranks on one machine with $kind"
  for backend in "" gloo; do
    name=two$backend-$kind before=$(sent_by 0)
    BOOSTER_BACKEND=$backend train_on_two "$name" "$plugin" 6 || fail "$name: two machines"
    sent[${#backend}]=$(($(sent_by 0) - before))
    [[ $(losses "one-$kind") == $(losses "$name") ]] ||
      fail "$name: two machines have other losses than one"
  done
  echo "$kind: ${sent[0]} bytes left a machine, ${sent[4]} without shared memory"
  ((sent[0] * 10 < sent[4] * 9)) || fail "$kind: shared memory saves no bytes"
done

# progress NAME ROWS: waits until the log has ROWS steps, at most 60 s.
progress() {
  for _ in {1..600}; do
    [[ $(cat "$folder/$1/metrics.jsonl" 2>/dev/null | wc -l) -lt $2 ]] || return 0
    sleep 0.1
  done
  fail "$1: no progress"
}
# Prints a process of the ranks on a machine.
rank_on() {
  local pid
  for pid in $(ip netns pids "bt$id-$1"); do
    [[ ! /proc/$pid/exe -ef $program ]] || { echo "$pid"; return; }
  done
}

checkpoint_every=5 train_on_two again torch_ddp 60 --max_restarts 2 &
both=$!
progress again 12
kill -9 "$(rank_on 1)"
wait "$both" || fail "the ranks were not started again"
for node in 0 1; do
  grep -q "starting all ranks again (1 of 2 restarts)" "$folder/again-$node.log" ||
    fail "machine $node does not say that its ranks start again"
done
grep -q "resumed from step" "$folder/again-0.log" || fail "the second attempt began anew"
train_on_one straight torch_ddp 60 || fail "60 steps"
[[ $(losses straight) == $(losses again) ]] || fail "the restarted training has other losses"

export BOOSTER_HEARTBEAT=3
for node in 0 1; do
  train_on "$node" orphan torch_ddp 1000000 --max_restarts 2 > "$folder/orphan-$node.log" 2>&1 &
  tool[node]=$!
done
progress orphan 3
kill -9 "${tool[1]}"
start=$SECONDS
wait "${tool[0]}" && fail "a tool that was killed was no error"
((SECONDS - start <= 10 + 3)) || fail "the other tool took $((SECONDS - start)) s"
wait "${tool[1]}" || true
grep -q "the tool of node 1" "$folder/orphan-0.log" || fail "nobody says which tool is gone"
grep -q "starting all ranks again" "$folder/orphan-0.log" && fail "started again without a machine"
sleep 1
no_processes_are_left || fail "processes are left behind a killed tool"

train_on_two cut torch_ddp 1000000 &
both=$!
progress cut 3
ip -n "bt$id-0" link set "v$id-0" down
start=$SECONDS
wait "$both" && fail "a network that went away was no error"
((SECONDS - start <= 10 + 3)) || fail "the error took $((SECONDS - start)) s"
for node in 0 1; do
  grep -q "has shown no sign of life for 3 s (BOOSTER_HEARTBEAT)" "$folder/cut-$node.log" ||
    fail "machine $node does not say what happened"
done
no_processes_are_left || fail "processes are left"
echo "two machines train as one"
