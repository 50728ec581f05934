#!/usr/bin/env bash
# Every JSON file of the examples is a valid config, and one with a mistake is not.
# usage: example_configs.sh ROOT BOOSTER
set -euo pipefail
root=$1 booster=$2

shopt -s nullglob
configs=("$root"/examples/*.json "$root"/examples/policies/*.json)
((${#configs[@]} >= 22)) || { echo "only ${#configs[@]} configs below $root/examples"; exit 1; }
for config in "${configs[@]}"; do
  "$booster" config check "$config"
done

wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT
sed 's/"optimizer"/"optimiser"/' "${configs[0]}" >"$wrong"
if "$booster" config check "$wrong" 2>/dev/null; then
  echo "a config with the unknown key 'optimiser' was accepted"
  exit 1
fi
