#!/usr/bin/env bash
# Checks that the example accepts every JSON block of the documents as a config.
# usage: document_configs.sh ROOT BOOSTER PROGRAM
set -euo pipefail
root=$1 booster=$2 program=$3
blocks=$(mktemp -d)
trap 'rm -rf "$blocks"' EXIT

for document in "$root"/README.md "$root"/docs/*.md "$root"/docs/*/*.md; do
  awk -v prefix="$blocks/$(basename "$document" .md)" '
    /^```json$/ { file = prefix "_line_" NR ".json"; next }
    /^```$/ { file = ""; next }
    file != "" { print > file }' "$document"
done
checked=$(find "$blocks" -name '*.json' | wc -l)
((checked >= 12)) || { echo "only $checked blocks of JSON were found"; exit 1; }
for block in "$blocks"/*.json; do
  "$booster" config check --program "$program" "$block"
done

echo '{ "booster": { "mixed_precision": { "name": "fp16", "init_scal": 1 } } }' \
  >"$blocks/wrong.json"
if "$booster" config check --program "$program" "$blocks/wrong.json" 2>/dev/null; then
  echo "a block with the unknown option 'init_scal' was accepted"
  exit 1
fi
