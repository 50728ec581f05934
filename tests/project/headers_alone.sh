#!/usr/bin/env bash
# Each header compiles alone: it includes what it needs.
# usage: headers_alone.sh ROOT COMPILER [FLAGS...]
set -euo pipefail
cd "$1"
shift
compile=("$@" -std=c++20 -fsyntax-only -fopenmp -w -x c++ -I. -DBOOSTER_VARIANT=portable)

compile_one() {
  local header=$1
  shift
  echo "#include \"$header\"" | "$@" - || { echo "$header does not compile alone"; return 1; }
}
export -f compile_one

mapfile -t headers < <(find kernels core parallel mixed_precision plugins booster examples benchmarks \
                         tests -name '*.h' | sort)
((${#headers[@]} > 80)) || { echo "only ${#headers[@]} headers were found"; exit 1; }
printf '%s\n' "${headers[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'compile_one "$@"' compile_one {} "${compile[@]}"
echo "${#headers[@]} headers compile alone"
