#!/usr/bin/env bash
# Prints how much distributed training differs from training in one process, in the form of
# docs/equivalence.md. Each model has a table: a row per layout, a column per strategy, and the
# largest difference in a cell.
#   scripts/equivalence.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1-build}
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT
# Idle threads sleep instead of spinning, because there are more ranks than cores.
TEST_SHARES=all EQUIVALENCE=$measured OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive \
  "$build/tests/spread_test" \
  -tc='*every strategy*,*every connection*' -sfe='*toys*' >&2
awk -F' *[|] *' '
  NF != 8 || !/^[|]/ { next }  # what doctest prints
  { split($2, model, ", ")
    layout = $2
    if (model[1] ~ /^(gloo|two machines|MPI)$/) model[1] = "Over other connections"
    else if (model[1] !~ /^(ViT|GPT-2|llama|qwen3|BERT|Encoder-decoder)$/)
      model[1] = "Small network"
    else sub(/^(ViT|GPT-2|llama|qwen3|BERT|Encoder-decoder), /, "", layout)
    row = model[1] SUBSEP layout " x " $3
    if (!(row in seen)) { seen[row] = ++rows; of[rows] = model[1]; key[rows] = row
                          title[rows] = layout " on " $3 }
    if (!($4 in at)) { at[$4] = ++columns; strategy[columns] = $4 }
    has[model[1], $4] = 1
    if ($6 + 0 >= far[row, $4] + 0) far[row, $4] = $6 + 0 }
  END { for (r = 1; r <= rows; ++r) if (!known[of[r]]++) models[++count] = of[r]
        for (m = 1; m <= count; ++m) {
          printf "## %s\n\n| layout |", models[m]
          for (c = 1; c <= columns; ++c) if ((models[m], strategy[c]) in has)
            printf " %s |", strategy[c]
          printf "\n|---|"
          for (c = 1; c <= columns; ++c) if ((models[m], strategy[c]) in has) printf "---|"
          for (r = 1; r <= rows; ++r) if (of[r] == models[m]) {
            printf "\n| %s |", title[r]
            for (c = 1; c <= columns; ++c) if ((models[m], strategy[c]) in has)
              printf " %.0e |", far[key[r], strategy[c]]
          }
          printf "\n\n"
        } }' "$measured"
