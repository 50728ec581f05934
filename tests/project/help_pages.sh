#!/usr/bin/env bash
# Checks that the installed man page and completion have every command and option of the program's
# --help.
# usage: help_pages.sh PROGRAM MAN_PAGE COMPLETION
set -euo pipefail
program=$1 page=$2 completion=$3

# shellcheck source=/dev/null
source "$completion"
completed() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _booster
  echo "${COMPREPLY[*]}"
}
want() {
  [[ $1 == "$2" ]] || { echo "completion of '$3': got '$1', want '$2'"; exit 1; }
}
want "$(completed booster ma)" matrix "booster ma"
want "$(completed booster config "")" "check schema --help -h" "booster config"
want "$(completed booster config schema --li)" --library "booster config schema --li"
want "$(completed booster run --nn)" --nnodes "booster run --nn"
want "$(completed booster run --nnodes 2 --node_r)" --node_rank "booster run --nnodes 2 --node_r"
want "$(completed booster plan --ranks)" --ranks-per-node "booster plan --ranks"

mapfile -t commands < <("$program" --help | sed -nE '1,/^Subcommands:/d; s/^  ([a-z-]+).*/\1/p')
((${#commands[@]} >= 10)) || { echo "only ${#commands[@]} commands; the search is broken"; exit 1; }
options=0
for command in "${commands[@]}"; do
  grep -qx "\.SS $command" "$page" || { echo "no section of $command in the man page"; exit 1; }
  for option in $("$program" "$command" --help | grep -oE '^  --[a-z_-]+'); do
    grep -qF -- "${option//-/\\-}" "$page" || { echo "no $option in the man page"; exit 1; }
    options=$((options + 1))
  done
done
if command -v groff >/dev/null; then
  warnings=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
  [[ -z $warnings ]] || { echo "$warnings"; exit 1; }
fi
echo "${#commands[@]} commands, $options options"
