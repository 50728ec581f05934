#!/usr/bin/env bash
# Rooms include each other in one direction only, and by names that begin at the root.
# usage: include_directions.sh ROOT
set -euo pipefail
cd "$1"

# What each room may include besides itself (docs/architecture.md shows the same picture).
core="core/tensor core/autograd core/nn core/optim core/data"
declare -A allowed=(
  [kernels]=""
  [core/tensor]="kernels"
  [core/autograd]="kernels core/tensor"
  [core/nn]="kernels core/tensor core/autograd"
  [core/optim]="kernels core/tensor core/autograd"
  [core/data]="kernels core/tensor"
  [parallel]="kernels $core"
  [mixed_precision]="kernels $core parallel"
  [plugins]="kernels $core parallel"
  [booster]="kernels $core parallel mixed_precision plugins"
  [examples]="kernels $core parallel mixed_precision plugins booster"
  [benchmarks]="kernels $core parallel mixed_precision plugins booster"
  [tests]="kernels $core parallel mixed_precision plugins booster examples benchmarks"
)

room_of() {
  local first=${1%%/*} rest=${1#*/}
  if [[ $first == core ]]; then echo "core/${rest%%/*}"; else echo "$first"; fi
}

failures=0
complain() { echo "$1"; failures=$((failures + 1)); }

lines=0
while IFS=: read -r file line text; do
  lines=$((lines + 1))
  [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*([\"\<])([^\"\>]+) ]] || continue
  mark=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
  from=$(room_of "$file") to=$(room_of "$name")
  [[ -v allowed[$from] ]] || complain "$file: '$from' is no room; add it to the table of this test"
  if [[ ! -v allowed[$to] || ! -e $name ]]; then
    [[ $mark == '<' ]] || complain "$file:$line: \"$name\" is no file of a room"
    continue
  fi
  [[ $from == "$to" || " ${allowed[$from]} " == *" $to "* ]] ||
    complain "$file:$line: $from must not include $to ($name)"
done < <(grep -rnE --include='*.h' --include='*.cpp' --include='*.def' --include='*.cu' \
           '^[[:space:]]*#[[:space:]]*include' \
           kernels core parallel mixed_precision plugins booster examples benchmarks tests)

((lines > 500)) || complain "only $lines include lines were found; the search is broken"
echo "$lines include lines, $failures against the rules"
((failures == 0))
