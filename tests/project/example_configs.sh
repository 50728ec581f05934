#!/usr/bin/env bash
# Checks that each example accepts its JSON files with its own sections, and refuses one with a
# mistake.
# usage: example_configs.sh ROOT BOOSTER PROGRAM TEXT_PROGRAM
set -euo pipefail
root=$1 booster=$2 program=$3 text_program=$4

shopt -s nullglob
configs=("$root"/examples/vit*.json "$root"/examples/policies/*.json)
((${#configs[@]} >= 22)) || { echo "only ${#configs[@]} configs below $root/examples"; exit 1; }
for config in "${configs[@]}"; do
  "$booster" config check --program "$program" "$config"
  "$booster" config check "$config" >/dev/null
done
text_configs=("$root"/examples/language_model*.json)
others=("$root"/examples/*.json "$root"/examples/policies/*.json)
((${#others[@]} == ${#configs[@]} + ${#text_configs[@]})) ||
  { echo "a config below $root/examples is of no program"; exit 1; }
for config in "${text_configs[@]}"; do
  "$booster" config check --program "$text_program" "$config"
done

wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT
# refused KEY MISSPELT ARGUMENTS...: checks that the first config with the key misspelt gives an
# error that names the key
refused() {
  local key=$1 misspelt=$2 text
  shift 2
  sed "s/\"$key\"/\"$misspelt\"/" "${configs[0]}" >"$wrong"
  if text=$("$booster" config check "$@" "$wrong" 2>&1); then
    echo "a config with the unknown key '$misspelt' was accepted"
    exit 1
  fi
  [[ $text =~ $wrong:[0-9]+:[0-9]+:.*"did you mean $key?" ]] || { echo "$text"; exit 1; }
}
refused optimizer optimiser
refused optimizer optimiser --program "$program"
refused epochs epoch --program "$program"
refused batch_size bach_size --program "$program"
