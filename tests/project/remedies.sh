#!/usr/bin/env bash
# Checks that the library's compile errors name a remedy, and that the remedy compiles.
# usage: remedies.sh ROOT COMPILER [FLAGS...]
set -euo pipefail
cd "$1"
shift
compile=("$@" -std=c++20 -fsyntax-only -fopenmp -w -I. -x c++ -)

program() {  # LINES of main
  printf '#include "core/nn/layers.h"\nusing namespace booster;\nint main() { %s }\n' "$1"
}
compiles() {
  program "$1" | "${compile[@]}" || { echo "does not compile: $1"; exit 1; }
}
is_refused() {  # LINES WORDS
  local said
  if said=$(program "$1" | LC_ALL=C "${compile[@]}" 2>&1); then
    echo "compiles, but must not: $1"
    exit 1
  fi
  grep -qF "$2" <<<"$said" || { echo "$said" && echo "the error does not say: $2" && exit 1; }
}

is_refused 'Linear linear(3, 4); Model model = linear;' 'write Model model = std::move(module)'
is_refused 'Linear linear(3, 4); Model model(linear);' 'Model(std::make_shared<Linear>(3, 4))'
compiles 'Linear linear(3, 4); Model model = std::move(linear);'
compiles 'Model model = Model(std::make_shared<Linear>(3, 4));'
compiles 'Model model = Linear(3, 4);'
