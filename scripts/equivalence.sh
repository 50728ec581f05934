#!/usr/bin/env bash
# Prints how far training spread over ranks is from training in one process, as docs/equivalence.md
# has it: a row per strategy, a column per plugin and number of ranks, the largest distance of the
# three optimizers in a cell.
#   scripts/equivalence.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1-build}
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT
EQUIVALENCE=$measured OMP_NUM_THREADS=1 "$build/tests/spread_test" -tc='*every strategy*' \
  -sfe='*toys*' >&2
awk -F' *[|] *' '
  NF != 8 || !/^[|]/ { next }  # what doctest prints
  { column = $2 " x " $3
    if (!(column in at)) { at[column] = ++columns; title[columns] = column }
    if (!($4 in seen)) { seen[$4] = ++rows; name[rows] = $4 }
    if ($6 + 0 >= far[$4, column] + 0) far[$4, column] = $6 + 0 }
  END { printf "| strategy |"
        for (c = 1; c <= columns; ++c) printf " %s |", title[c]
        printf "\n|---|"
        for (c = 1; c <= columns; ++c) printf "---|"
        for (r = 1; r <= rows; ++r) {
          printf "\n| %s |", name[r]
          for (c = 1; c <= columns; ++c) printf " %.0e |", far[name[r], title[c]]
        }
        print "" }' "$measured"
