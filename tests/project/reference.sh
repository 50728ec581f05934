#!/usr/bin/env bash
# The reference pages are what the programs print.
# usage: reference.sh ROOT BOOSTER VIT_CALTECH101
set -euo pipefail
root=$1 booster=$2 example=$3
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT

"$root/scripts/reference.sh" "$booster" "$example" "$pages"
for page in config commands choices; do
  lines=$(wc -l < "$pages/$page.md")
  ((lines > 100)) || { echo "$page.md: only $lines lines"; exit 1; }
done
# coverage.sh checks the page of torch's names.
diff -r --exclude='coverage.*' "$root/docs/reference" "$pages" || {
  echo "docs/reference is old; want: scripts/reference.sh $booster $example"
  exit 1
}
