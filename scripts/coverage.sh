#!/usr/bin/env bash
# Writes the table of torch's names, docs/reference/coverage.md, from coverage.def next to it.
# tests/project/coverage.sh holds both current, and the names here true.
#   scripts/coverage.sh [FILE]
set -euo pipefail
folder=$(dirname "$0")/../docs/reference
page=${1-$folder/coverage.md}

awk -F ' \\| ' '
  function names(list,   all, n, i, text) {
    n = split(list, all, /, /)
    for (i = 1; i <= n; i++) text = text (i > 1 ? ", " : "") "`" all[i] "`"
    return text
  }
  function count_of(name) { return split(name, parts, /, /) }
  /^#/ && !/^## / { next }
  /^## / {
    section = substr($1, 4)
    sections[++n_sections] = section
    next
  }
  NF >= 2 {
    ours = $2 == "-" ? "missing" : $2 == "~" ? "not applicable" : names($2)
    row = "| " names($1) " | " ours " | " \
          $3 " |\n"
    rows[section] = rows[section] row
    if ($2 != "~") all[section] += count_of($1)
    if ($2 == "-") missing[section] += count_of($1)
  }
  END {
    print "# Coverage of torch"
    print ""
    print "Made by `scripts/coverage.sh` from `coverage.def`. Functions that torch documents, and"
    print "their names here. A row that says missing names what to use instead. Not listed:"
    print "in-place twins (`relu_`), sparse and quantised tensors, torch\047s own machinery."
    print ""
    print "| | names | missing |"
    print "|---|---|---|"
    for (i = 1; i <= n_sections; i++) {
      s = sections[i]
      printf "| %s | %d | %d (%.1f %%) |\n", s, all[s], missing[s], 100 * missing[s] / all[s]
    }
    for (i = 1; i <= n_sections; i++)
      printf "\n## %s\n\n| torch | here | |\n|---|---|---|\n%s", sections[i], rows[sections[i]]
  }' "$folder/coverage.def" > "$page"
