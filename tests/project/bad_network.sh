#!/usr/bin/env bash
# Trains on two machines over a network that drops, delays, reorders and duplicates packets, and
# over one that resets connections or falls silent. Checks that every logged loss equals the loss on
# one machine, and that nothing waits longer than the heartbeat allows.
# usage: bad_network.sh BOOSTER GPT2_TEXT BAD_LINK [ROUNDS [SEED]]
set -euo pipefail
booster=$1 program=$2 link=$3 rounds=${4-1} seed=${5-1}
. "$(dirname "$0")/namespaces.sh"
make_machines
address=10.78.0.1
export BOOSTER_HEARTBEAT=6
patience=150  # seconds for a training with its start

plugins=(torch_ddp low_level_zero fsdp)
for plugin in "${plugins[@]}"; do
  train_on_one "one-$plugin" "$plugin" 6 || fail "four ranks on one machine with $plugin"
done

connect() {
  : > "$folder/link"  # an earlier link has printed "ready"
  "$link" "bt$id-0" "bt$id-1" "$@" > "$folder/link" 2> "$folder/link.log" &
  link_pid=$!
  until grep -q ready "$folder/link"; do  # the test's own limit ends this command
    kill -0 "$link_pid" 2>/dev/null || skip "no TUN devices: $(cat "$folder/link.log")"
    sleep 0.05
  done
  for node in 0 1; do
    ip -n "bt$id-$node" addr add "10.78.0.$((node + 1))" peer "10.78.0.$((2 - node))" dev bad
    ip -n "bt$id-$node" link set bad up
  done
}
disconnect() {
  kill "$link_pid"
  wait "$link_pid" 2>/dev/null || true
}

# Runs both sides' tools for at most `patience` seconds.
train_with_patience() {
  local name=$1 status=0 waiter
  train_on_two "$@" &
  waiter=$!
  for ((i = 0; i < patience * 10; ++i)); do
    kill -0 "$waiter" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$waiter" 2>/dev/null; then
    hangs=$((hangs + 1))
    echo "$name hangs"
    end_processes_on 0
    end_processes_on 1
  fi
  wait "$waiter" || status=$?
  return "$status"
}

runs=0 ended=0 wrong=0 hangs=0 left=0
# hamper NAME MUST_END [options of the link]
hamper() {
  local name=$1 must_end=$2 plugin=${plugins[runs % 3]} status=0
  shift 2
  runs=$((runs + 1)) seed=$((seed + 1))
  name=$name-$seed
  connect "$@" --seed "$seed"
  train_with_patience "$name" "$plugin" "$([[ $must_end == ends ]] && echo 6 || echo 1000000)" ||
    status=$?
  disconnect
  local known got
  known=$(losses "one-$plugin")
  got=$(losses "$name" 2>/dev/null | head -6 || true)
  [[ $known == "$got"* ]] || { wrong=$((wrong + 1)); echo "$name with $plugin: other losses"; }
  if [[ $must_end == ends ]]; then
    [[ $status == 0 && $known == "$got" ]] || fail "$name with $plugin: ended with $status"
    ended=$((ended + 1))
  else
    [[ $status != 0 ]] || fail "$name: no error"
  fi
  no_processes_are_left || { sleep 1; no_processes_are_left || left=$((left + 1)); }
  rm -rf "${folder:?}/$name" "$folder/$name"-?.log
}

for ((round = 0; round < rounds; ++round)); do
  hamper loss ends --loss 0.02
  hamper delay ends --delay_ms 50 --jitter_ms 10
  hamper reorder ends --delay_ms 5 --reorder 0.25
  hamper duplicate ends --duplicate 0.05 --delay_ms 1
  hamper all ends --delay_ms 10 --jitter_ms 5 --loss 0.01 --reorder 0.2 --duplicate 0.02
  hamper close fails --reset_after "0.$((RANDOM % 9 + 1))"
  hamper cut fails --cut_after "0.$((RANDOM % 9 + 1))"
done
echo "$runs trainings over bad networks, $ended to the end: $wrong with wrong losses," \
  "$hangs hung, $left left processes behind"
((wrong + hangs + left == 0))
