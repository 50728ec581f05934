#!/usr/bin/env bash
# Rooms include each other in one direction only, and by names that begin at the root.
# usage: include_directions.sh ROOT
set -euo pipefail
cd "$1"

# What each room may include besides itself (docs/architecture.md shows the same picture).
core="core/tensor core/autograd core/nn core/optim core/data"
allowed="\
platform:
kernels: platform
core/tensor: platform kernels
core/autograd: platform kernels core/tensor
core/nn: platform kernels core/tensor core/autograd
core/optim: platform kernels core/tensor core/autograd
core/data: platform kernels core/tensor
parallel: platform kernels $core
mixed_precision: platform kernels $core parallel
plugins: platform kernels $core parallel
booster: platform kernels $core parallel mixed_precision plugins
examples: platform kernels $core parallel mixed_precision plugins booster
benchmarks: platform kernels $core parallel mixed_precision plugins booster
tests: platform kernels $core parallel mixed_precision plugins booster examples benchmarks"

rooms=(platform kernels core parallel mixed_precision plugins booster examples benchmarks tests)

# One process for all lines: a few forks for each of them took half a minute on a busy machine.
grep -rnE --include='*.'{h,cpp,def,cu,cuh} '^[[:space:]]*#[[:space:]]*include' "${rooms[@]}" |
  awk -v allowed="$allowed" -v files="$(find "${rooms[@]}" -type f)" '
    function room_of(path, parts) {
      split(path, parts, "/")
      return parts[1] == "core" ? "core/" parts[2] : parts[1]
    }
    function complain(what) { print what; ++failures }
    BEGIN {
      count = split(allowed, rows, "\n")
      for (i = 1; i <= count; ++i) {
        colon = index(rows[i], ":")
        may[substr(rows[i], 1, colon - 1)] = substr(rows[i], colon + 1) " "
      }
      count = split(files, names, "\n")
      for (i = 1; i <= count; ++i) exists[names[i]]
    }
    {
      # FILE:LINE:#include "NAME"
      file = $0; sub(/:.*/, "", file)
      line = substr($0, length(file) + 2); sub(/:.*/, "", line)
      name = substr($0, length(file) + length(line) + 3)
      if (!match(name, /["<][^">]+/)) next
      ++lines
      mark = substr(name, RSTART, 1)
      name = substr(name, RSTART + 1, RLENGTH - 1)
      from = room_of(file); to = room_of(name)
      if (!(from in may)) {
        complain(file ": " from " is no room; add it to the table of this test")
      } else if (!(to in may) || !(name in exists)) {
        if (mark == "\"") complain(file ":" line ": \"" name "\" is no file of a room")
      } else if (from != to && index(may[from], " " to " ") == 0) {
        complain(file ":" line ": " from " must not include " to " (" name ")")
      }
    }
    END {
      if (lines < 5000) complain("only " lines " include lines were found; the search is broken")
      print lines " include lines, " failures + 0 " against the rules"
      exit failures > 0
    }'
