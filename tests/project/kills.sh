#!/usr/bin/env bash
# Kills one rank, all ranks or a run tool of a training on two machines at random times. The run
# must continue from the newest checkpoint, or end if a tool is dead. It must lose no committed
# checkpoint, leave no process or shared memory, and never hang. After a failure keeps the logs and
# prints their folder.
# usage: kills.sh BOOSTER GPT2_TEXT [KILLS [SEED]]
set -euo pipefail
booster=$1 program=$2 kills=${3-6} seed=${4-1}
. "$(dirname "$0")/namespaces.sh"
make_machines
RANDOM=$seed
export BOOSTER_HEARTBEAT=5 checkpoint_every=3
patience=60  # seconds until a run continues, or ends
checkpoints=$folder/run/checkpoint

run=0 all_tools=()
# Lists the shared memory of these tools.
shared_memory() {
  local pid
  for pid in "${all_tools[@]}"; do
    compgen -G "/dev/shm/booster-run-$pid-*" || compgen -G "/tmp/booster-run-$pid-*" || true
  done
}
start_tools() {
  run=$((run + 1))
  for node in 0 1; do
    train_on "$node" run torch_ddp 1000000 --max_restarts 1000 > "$folder/$run-$node.log" 2>&1 &
    tool[node]=$!
    all_tools+=("$!")
  done
}
ranks() {
  local pid
  for pid in $(ip netns pids "bt$id-0") $(ip netns pids "bt$id-1"); do
    [[ ! /proc/$pid/exe -ef $program ]] || echo "$pid"
  done
}
# Prints the step of the newest checkpoint with a final name; 0 if there is none.
committed() {
  local newest
  newest=$(find "$checkpoints" -maxdepth 1 -name 'step-?????????' 2>/dev/null | sort |
    tail -n 1 || true)
  echo $((10#0${newest: -9}))
}
# Prints how often the tool restarted this run's ranks.
restarts() { grep -c "starting all ranks again" "$folder/$run-0.log" || true; }
# Prints the steps from which the ranks resumed after restart $1, one per line. Ranks may print this
# late; the tool reports at once that it starts them.
resumed_after() {
  awk -v known="$1" '/starting all ranks again/ { ++count }
    count > known && match($0, /resumed from step [0-9]+/) {
      print substr($0, RSTART + 18, RLENGTH - 18) }' "$folder/$run-0.log"
}
# until_within SECONDS COMMAND...
until_within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}
is_past() { (($(committed) > $1)); }
is_gone() { ! kill -0 "${tool[$1]}" 2>/dev/null; }
tools_are_gone() { is_gone 0 && is_gone 1; }

lost=0 orphans=0 hangs=0 ends=0
declare -A count=([rank]=0 [ranks]=0 [tool]=0)
kept=${TMPDIR:-/tmp}/booster-kills-$$
# wrong WHAT: shows the end of the logs, and keeps them.
wrong() {
  echo "$1"
  tail -n 20 "$folder/$run"-?.log
  mkdir -p "$kept"
  cp "$folder/$run"-?.log "$kept"
  echo "the logs are $kept/$run-*.log"
}
hang() { hangs=$((hangs + 1)) && wrong "hang: $1"; }
# Tests whether the run has continued after a kill: it has committed more than STEP. If STEP is a
# checkpoint, the ranks after RESTARTS restarts must also have printed their start.
has_gone_on() { is_past "$1" && { (($1 == 0)) || [[ -n $(resumed_after "$2") ]]; }; }
has_gone_on_or_ended() { has_gone_on "$@" || tools_are_gone; }
# check_checkpoints STEP RESTARTS: checks that a kill removed no committed checkpoint. Ranks after
# RESTARTS restarts must not have resumed from an earlier step or from the beginning.
check_checkpoints() {
  local after earliest
  after=$(committed) earliest=$(resumed_after "$2" | sort -n | head -n 1)
  if ((after < $1)) || { [[ -n $earliest ]] && ((earliest < $1)); } ||
    { (($1 > 0)) && [[ -z $earliest ]] && is_past "$1"; }; then
    lost=$((lost + 1))
    wrong "lost: step $1 was committed, $after is the newest, resumed from ${earliest:-none}"
  fi
}
# goes_on STEP RESTARTS KILL: waits until the run continues. Reports and restarts a run that hangs
# or has ended.
goes_on() {
  until_within "$patience" has_gone_on_or_ended "$1" "$2" || true
  check_checkpoints "$1" "$2"
  if has_gone_on "$1" "$2"; then return; fi
  if tools_are_gone; then
    ends=$((ends + 1))
    wrong "the run ended after $3"
  else
    hang "no new checkpoint after $3"
  fi
  kill -9 "${tool[@]}" 2>/dev/null || true
  end_of_tools "$3"
  start_tools
}
end_of_tools() {
  until_within "$patience" tools_are_gone || {
    hang "the run tools after $1"
    kill -9 "${tool[@]}" 2>/dev/null || true
  }
  wait "${tool[@]}" 2>/dev/null || true
  until_within 3 no_processes_are_left || {
    orphans=$((orphans + 1))
    echo "orphans after $1: $(ip netns pids "bt$id-0") $(ip netns pids "bt$id-1")"
    end_processes_on 0
    end_processes_on 1
  }
}

start_tools
for ((i = 1; i <= kills; ++i)); do
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  known=$(committed) before_it=$(restarts)
  if is_gone 0 || is_gone 1; then
    goes_on "$known" "$before_it" "what came before kill $i"
    before_it=$(restarts)
  fi
  kinds=(rank rank ranks ranks tool)
  kind=${kinds[RANDOM % 5]}
  count[$kind]=$((count[$kind] + 1))
  if [[ $kind == tool ]]; then
    kill -9 "${tool[RANDOM % 2]}"
    end_of_tools "kill $i"
    start_tools
    before_it=-1
  else
    find_victims() { mapfile -t victims < <(ranks) && ((${#victims[@]})); }
    find_victims_or_end() { find_victims || tools_are_gone; }
    until_within "$patience" find_victims_or_end || true
    if ((${#victims[@]} == 0)); then
      goes_on "$known" "$before_it" "what came before kill $i"
      continue
    fi
    [[ $kind == ranks ]] || victims=("${victims[RANDOM % ${#victims[@]}]}")
    kill -9 "${victims[@]}" 2>/dev/null || true
  fi
  # Every second kill hits a run that has continued, the others one that may still be starting.
  if ((RANDOM % 2)) || [[ $kind == tool ]] || ((i == kills)); then
    goes_on "$known" "$before_it" "kill $i ($kind)"
  fi
  ((i % 10)) || echo "$i kills: $lost lost, $orphans orphans, $hangs hangs, $ends ended"
done
kill "${tool[@]}"
end_of_tools "the end"
"$booster" inspect "$checkpoints" > "$folder/inspect.log" 2>&1 ||
  fail "the last checkpoint is broken"
left=$(shared_memory)
[[ -z $left ]] || echo "left behind: $left"
echo "$((i - 1)) kills (${count[rank]} of a rank, ${count[ranks]} of all ranks," \
  "${count[tool]} of a tool): $lost lost checkpoints, $orphans orphans, $hangs hangs," \
  "$ends ended"
((lost + orphans + hangs + ends == 0)) && [[ -z $left ]]
