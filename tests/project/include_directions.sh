#!/usr/bin/env bash
# Checks that layers, and the folders inside a layer, include each other in one direction only, by
# names that begin at the root. An example includes no other; examples/training is for shared code.
# usage: include_directions.sh ROOT
set -euo pipefail
cd "$1"

# The other layers that each layer may include (docs/architecture.md shows the same).
core="core/text core/tensor core/autograd core/nn core/optim core/data"
allowed="\
platform:
kernels: platform
core/text: platform
core/tensor: platform kernels
core/autograd: platform kernels core/tensor
core/nn: platform kernels core/tensor core/autograd
core/optim: platform kernels core/tensor core/autograd
core/data: platform kernels core/text core/tensor
parallel: platform kernels $core
mixed_precision: platform kernels $core parallel
plugins: platform kernels $core parallel
booster: platform kernels $core parallel mixed_precision plugins
tools: platform kernels $core parallel mixed_precision plugins booster
examples: platform kernels $core parallel mixed_precision plugins booster
benchmarks: platform kernels $core parallel mixed_precision plugins booster
tests: platform kernels $core parallel mixed_precision plugins booster tools examples \
  benchmarks"

# The folders inside a layer, bottom up; "." is the layer's own folder. A file may include files of
# its folder and of those before it. Sources for CPUs and GPUs include *.cuh files under
# BOOSTER_ON_GPU; these count only inside kernels/cuda.
inner="\
platform: . files json arguments
kernels: arguments host . device cuda/runtime/libraries cuda/runtime cuda/collectives cuda/trace \
  cpu dispatch launch numbers walks products attention elementwise fp8 images index optimizer pool \
  random reduce rows cuda cuda/elementwise cuda/index cuda/pool cuda/products cuda/rows \
  cuda/attention cuda/reduce cuda/module
core/text: unicode chat .
core/tensor: memory . checks random capture exchange
core/autograd: . ops
core/nn: . functional models
core/optim: . algorithms schedules
core/data: images archives gpu . transforms datasets
parallel: operations rendezvous rendezvous/store backends groups .
mixed_precision: interface fp8 ops/tables ops scaling . apex paddle strategies
plugins: interface parameters gradients pipeline tensor sequence .
booster: training checkpoint/safetensors checkpoint/folder checkpoint/training checkpoint \
  config/checks config/options config/tables config config/plugins profile config/strategies \
  numerics export report .
tools: run plan explain/tables explain doctor scaler report report/page new commands ."

layers=(platform kernels core parallel mixed_precision plugins booster tools examples benchmarks
  tests)

# Uses one process for all lines: a few forks per line took half a minute on a busy machine.
grep -rnE --include='*.'{h,cpp,def,cu,cuh} '^[[:space:]]*#[[:space:]]*include' "${layers[@]}" |
  awk -v allowed="$allowed" -v inner="$inner" -v files="$(find "${layers[@]}" -type f)" '
    function layer_of(path, parts) {
      split(path, parts, "/")
      return parts[1] == "core" ? "core/" parts[2] : parts[1]
    }
    # "cpu" of "kernels/cpu/matmul.cpp", "." of "kernels/catalogue.h"
    function folder_in(layer, path) {
      sub(/[^\/]*$/, "", path)
      path = substr(path, length(layer) + 2)
      sub(/\/$/, "", path)
      return path == "" ? "." : path
    }
    function place_of(layer, path, key) {
      key = layer " " folder_in(layer, path)
      if (!(key in place)) complain(path ": its folder has no place in the order of " layer)
      return place[key]
    }
    function example_of(path, parts) {
      split(path, parts, "/")
      return parts[2]
    }
    function complain(what) { print what; ++failures }
    BEGIN {
      count = split(allowed, rows, "\n")
      for (i = 1; i <= count; ++i) {
        colon = index(rows[i], ":")
        may[substr(rows[i], 1, colon - 1)] = substr(rows[i], colon + 1) " "
      }
      count = split(inner, rows, "\n")
      for (i = 1; i <= count; ++i) {
        n = split(rows[i], folders, /[: ]+/)
        ordered[folders[1]] = 1
        for (k = 2; k <= n; ++k) place[folders[1] " " folders[k]] = k
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
      from = layer_of(file); to = layer_of(name)
      if (from == "examples" && to == "examples" && name !~ /^examples\/training\// &&
          example_of(file) != example_of(name))
        complain(file ":" line ": an example must not include another (" name ")")
      if (!(from in may)) {
        complain(file ": " from " is no layer; add it to the table of this test")
      } else if (!(to in may) || !(name in exists)) {
        if (mark == "\"") complain(file ":" line ": \"" name "\" is no file of a layer")
      } else if (from != to && index(may[from], " " to " ") == 0) {
        complain(file ":" line ": " from " must not include " to " (" name ")")
      } else if (from == to && from in ordered && (name !~ /\.cuh$/ || file ~ /^kernels\/cuda/)) {
        if (place_of(from, file) < place_of(from, name))
          complain(file ":" line ": its folder must not include " name)
      }
    }
    END {
      if (lines < 5000) complain("only " lines " include lines were found; the search is broken")
      print lines " include lines, " failures + 0 " against the rules"
      exit failures > 0
    }'
