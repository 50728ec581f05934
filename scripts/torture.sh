#!/usr/bin/env bash
# Interrupts small trainings in drawn ways, resumes them, and compares the results bit for bit with
# trainings that ran without interruption. Prints a table: interruptions by plugin and kind, and
# what went wrong. A failure prints the command that repeats it, and keeps its folder.
#   scripts/torture.sh [--minutes N | --cases N] [--seed S] [--case I] [--build FOLDER]
# --minutes: how long (10). --cases: how many instead. --case: that case alone. --build: build.
set -euo pipefail

usage_error() {
  echo "torture: $1; want scripts/torture.sh [--minutes N | --cases N] [--seed S] [--case I]" \
    "[--build FOLDER]" >&2
  exit 2
}

minutes=10 cases=0 seed=$(date +%s) only=0 build=$(dirname "$0")/../build
while (($# > 0)); do
  (($# > 1)) || usage_error "an argument without its value; got $1"
  case $1 in
    --minutes) minutes=$2 ;;
    --cases) cases=$2 ;;
    --seed) seed=$2 ;;
    --case) only=$2 ;;
    --build) build=$2 ;;
    *) usage_error "unknown argument; got $1" ;;
  esac
  [[ $1 == --build || $2 =~ ^[0-9]+$ ]] || usage_error "$1 names no number; got '$2'"
  shift 2
done
build=$(realpath "$build")
booster=$build/tools/booster program=$build/examples/language_model
failing=$build/tests/project/libfailing_calls.so
for file in "$booster" "$program" "$failing"; do
  [[ -e $file ]] || { echo "torture: $file is not built" >&2; exit 2; }
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for _ in {1..60}; do printf 'the quick brown fox jumps over the lazy dog. '; done > "$folder/text"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive BOOSTER_HEARTBEAT=5
patience=120  # seconds for a run that is not interrupted

plugins=(single torch_ddp low_level_zero fsdp tensor pipeline)
declare -A settings=(
  [single]=single [torch_ddp]=torch_ddp [low_level_zero]=low_level_zero [fsdp]=fsdp
  [tensor]='{"name": "hybrid_parallel", "tp_size": 2}'
  [pipeline]='{"name": "hybrid_parallel", "pp_size": 2, "num_microbatches": 2}')
# What happens: to one rank, to all, or to the run tool; a system call of a save that fails, or at
# which the rank is killed.
kinds=(rank-KILL rank-TERM rank-STOP ranks-KILL ranks-TERM tool-KILL tool-TERM
  call-fails call-kills)
steps=40

# words_of PLUGIN FOLDER [options of the run tool]: the array `words`.
words_of() {
  local plugin=$1 out=$2 ranks=2
  [[ $plugin != single ]] || ranks=1
  shift 2
  words=("$booster" run --nproc_per_node "$ranks" --grace 5 "$@" "$program"
    --set data.file="$folder/text" --set train.output_dir="$out"
    --set booster.plugin="${settings[$plugin]}" --set train.max_steps=$steps
    --set train.epochs=100000 --set train.checkpoint_every=3 --set train.log_every=1
    --set train.sample_tokens=0 --set model.name=gpt2 --set model.n_positions=32
    --set model.n_embd=32 --set model.n_layer=2 --set model.n_head=2 --set model.embd_pdrop=0.1
    --set data.tokens=32 --set data.batch_size=4)
}
newest() {
  find "$1/checkpoint" -maxdepth 1 -name 'step-?????????' 2>/dev/null | sort | tail -n 1 || true
}
step_of() {
  local name=${1##*/step-}
  echo $((10#0$name))
}
# The weights and all losses of a run: what an interruption must not change.
result_of() {
  sha256sum < "$(newest "$1")/model.safetensors"
  sha256sum < "$(newest "$1")/optimizer.safetensors"
  grep -o '"loss":[^,}]*\|"step":[0-9]*\|"val_loss":[^,}]*' "$1/metrics.jsonl"
}

declare -A reference duration
# Trains once without interruption.
learn() {
  local plugin=$1 start
  [[ -z ${reference[$plugin]-} ]] || return 0
  words_of "$plugin" "$folder/$plugin"
  start=$(date +%s%N)
  timeout -k 5 "$patience" "${words[@]}" > "$folder/$plugin.log" 2>&1 ||
    { cat "$folder/$plugin.log"; echo "torture: $plugin does not train" >&2; exit 1; }
  duration[$plugin]=$((($(date +%s%N) - start) / 1000000))
  reference[$plugin]=$(result_of "$folder/$plugin")
}

# The processes that a run tool has started, by the folder that they write.
ranks_of() {
  local pid
  for pid in $(pgrep -f -- "train.output_dir=$1( |$)" || true); do
    [[ $(readlink "/proc/$pid/exe" 2>/dev/null) != "$program" ]] || echo "$pid"
  done
}
# until_within SECONDS COMMAND...
until_within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.05
  done
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
has_no_ranks() { [[ -z $(ranks_of "$1") ]]; }

# interrupt KIND TOOL FOLDER: what happens to the run after its drawn time.
interrupt() {
  local victims=("$2") signal=${1#*-}
  if [[ $1 == rank* ]]; then
    mapfile -t victims < <(ranks_of "$3")
    ((${#victims[@]} > 0)) || return 0
    [[ $1 == ranks-* ]] || victims=("${victims[RANDOM % ${#victims[@]}]}")
  fi
  kill "-$signal" "${victims[@]}" 2>/dev/null || true
}

declare -A count lost wrong hangs left
# note ARRAY PLUGIN TEXT: a failure of the current case.
failures=0
note() {
  local -n table=$1
  table[$2]=$((${table[$2]-0} + 1))
  failures=$((failures + 1))
  echo "case $case ($2, $kind): $3"
  echo "again: scripts/torture.sh --seed $seed --case $case"
  mkdir -p "${TMPDIR:-/tmp}/booster-torture-$seed"
  cp -r "$out" "$out".*log "${TMPDIR:-/tmp}/booster-torture-$seed" 2>/dev/null || true
  echo "its files are in ${TMPDIR:-/tmp}/booster-torture-$seed"
}

run_case() {
  RANDOM=$(((seed * 7919 + case * 104729) % 32749))
  local plugin=${plugins[RANDOM % ${#plugins[@]}]} tool options=() before resumed call
  kind=${kinds[RANDOM % ${#kinds[@]}]} out=$folder/case-$case
  local draw=$((RANDOM * 32768 + RANDOM)) times=$((1 + RANDOM % 2)) time
  learn "$plugin"
  count["$plugin $kind"]=$((${count["$plugin $kind"]-0} + 1))
  for ((time = 0; time < times; ++time)); do
    if [[ $kind == call-* ]]; then
      local errors=(28 5 122 30) with=0  # ENOSPC, EIO, EDQUOT, EROFS
      [[ $kind == call-kills ]] || with=${errors[draw % 4]}
      call=$((1 + (draw + time) % 900))
      options=(--env LD_PRELOAD="$failing" --env FAIL_UNDER="$out/checkpoint"
        --env FAIL_AT="$call" --env FAIL_WITH="$with" --env FAIL_NOTE="$out.call.log")
    fi
    words_of "$plugin" "$out" "${options[@]}"
    "${words[@]}" > "$out.$time.log" 2>&1 &
    tool=$!
    if [[ $kind != call-* ]]; then
      sleep "$(awk -v ms="${duration[$plugin]}" -v part="$(((draw + 7 * time) % 1000))" \
        'BEGIN { print ms * part / 1e6 }')"
      before=$(step_of "$(newest "$out")")
      interrupt "$kind" "$tool" "$out"
    fi
    until_within "$patience" has_ended "$tool" || {
      note hangs "$plugin" "the run tool has not ended"
      kill -9 "$tool" 2>/dev/null || true
    }
    wait "$tool" 2>/dev/null || true
    until_within 10 has_no_ranks "$out" || {
      note left "$plugin" "ranks have not ended: $(ranks_of "$out" | tr '\n' ' ')"
      mapfile -t orphans < <(ranks_of "$out")
      kill -9 "${orphans[@]}" 2>/dev/null || true
    }
    [[ -z $(compgen -G "/dev/shm/booster-run-$tool-*" || true) ]] ||
      note left "$plugin" "memory is left in /dev/shm"
    if [[ $kind != call-* ]] && (($(step_of "$(newest "$out")") < before)); then
      note lost "$plugin" "step $before was committed, $(newest "$out") is the newest"
    fi
  done
  before=$(step_of "$(newest "$out")")
  words_of "$plugin" "$out"
  timeout -k 5 "$patience" "${words[@]}" > "$out.resumed.log" 2>&1 || {
    note wrong "$plugin" "the resumed run failed: $(tail -n 3 "$out.resumed.log")"
    return 0
  }
  resumed=$(sed -n 's/.*resumed from step \([0-9]*\) .*/\1/p' "$out.resumed.log" | head -n 1)
  ((before == ${resumed:-0})) ||
    note lost "$plugin" "step $before was committed, the run resumed from ${resumed:-the start}"
  [[ $(result_of "$out") == "${reference[$plugin]}" ]] ||
    note wrong "$plugin" "weights, state or losses differ from those without interruption"
  local names
  local expected='step-[0-9]{9}|latest|checkpoint|metrics\.jsonl|run\.lock'
  expected+='|model|tokens\.bin(\.json)?'
  names=$(find "$out" "$out/checkpoint" -mindepth 1 -maxdepth 1 -printf '%f\n' |
    grep -vE "^($expected)\$" || true)
  [[ -z $names ]] || note left "$plugin" "files are left: $names"
  rm -rf "$out" "$out".*log
}

print_table() {
  printf '\n| plugin |'
  for kind in "${kinds[@]}"; do printf ' %s |' "$kind"; done
  printf ' lost | wrong | hangs | left |\n|---|'
  for kind in "${kinds[@]}" lost wrong hangs left; do printf -- '---|'; done
  for plugin in "${plugins[@]}"; do
    printf '\n| %s |' "$plugin"
    for kind in "${kinds[@]}"; do printf ' %s |' "${count["$plugin $kind"]-0}"; done
    printf ' %s | %s | %s | %s |' "${lost[$plugin]-0}" "${wrong[$plugin]-0}" \
      "${hangs[$plugin]-0}" "${left[$plugin]-0}"
  done
  printf '\n\n%s interruptions, %s failures, seed %s, %s s, %s\n' "$done_cases" "$failures" \
    "$seed" "$SECONDS" "$(nproc) cores"
}

done_cases=0
if ((only > 0)); then
  case=$only
  run_case
  done_cases=1
else
  for ((case = 1; cases > 0 ? case <= cases : SECONDS < 60 * minutes; ++case)); do
    run_case
    done_cases=$case
  done
fi
print_table
((failures == 0))
