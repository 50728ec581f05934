#!/usr/bin/env bash
# Checks that each header compiles on its own, with its own includes. The build has already checked
# headers that their own source file includes first. From the others this test compiles the share
# that TEST_SHARES names (tests/draws.h).
# usage: headers_alone.sh ROOT COMPILER [FLAGS...]
set -euo pipefail
cd "$1"
shift
compile=("$@" -std=c++20 -fsyntax-only -fopenmp -w -I. -DBOOSTER_VARIANT=portable -x c++ -)

proven_by_build() {
  local source=${1%.h}.cpp
  [[ -e $source && $(grep -m1 '^#include' "$source") == "#include \"$1\"" ]]
}
compile_one() {
  local header=$1
  shift
  "$@" <<<"#include \"$header\"" || { echo "$header does not compile alone"; return 1; }
}
export -f compile_one

mapfile -t headers < <(find platform kernels core parallel mixed_precision plugins \
                         booster tools examples -name '*.h' -not -path 'kernels/cuda/*' | sort)
((${#headers[@]} > 80)) || { echo "only ${#headers[@]} headers were found"; exit 1; }
shares=${TEST_SHARES:-0}
is_drawn() { [[ $shares == all || ,$shares, == *,$(($1 % 11)),* ]]; }
left=() number=0
for header in "${headers[@]}"; do
  proven_by_build "$header" || ! is_drawn $((number++)) || left+=("$header")
done
printf '%s\n' "${left[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'compile_one "$@"' compile_one {} "${compile[@]}"
echo "${#headers[@]} headers compile alone; ${#left[@]} were compiled here"
