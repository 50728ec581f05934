#!/usr/bin/env bash
# Code compiled for one instruction set must not be used by another. The linker keeps one copy of a
# weak definition (template, inline function). So a CPU variant's objects must define them all in
# the variant's namespace; else portable code could get AVX-512 instructions.
# usage: variant_symbols.sh NM PREFIX ARCHIVE...     (PREFIX + variant is the archive's base name)
set -euo pipefail
nm=$1 prefix=$2
shift 2

failures=0
for archive in "$@"; do
  variant=$(basename "$archive" .a)
  variant=${variant#"$prefix"}
  symbols=$("$nm" --demangle --defined-only "$archive" | grep -E '^[0-9a-f]+ [WVu] ' |
    cut -d' ' -f3- || true)
  total=$("$nm" --defined-only "$archive" | grep -c ' [TtDdRr] ' || true)
  ((total > 20)) || { echo "$archive: only $total symbols; the search is broken"; exit 1; }
  while IFS= read -r symbol; do
    [[ -z $symbol || $symbol == *"booster::kernels::$variant::"* ]] && continue
    echo "$(basename "$archive"): weak symbol outside booster::kernels::$variant: $symbol"
    failures=$((failures + 1))
  done < <(sort -u <<<"$symbols")
  echo "$variant: $total strong symbols, $(grep -c . <<<"$symbols" || true) weak ones"
done
((failures == 0))
