#!/usr/bin/env bash
# Every C++ block in the guides compiles, after `using namespace booster;`.
# usage: documents_compile.sh ROOT COMPILER...
set -euo pipefail
root=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

documents=("$root"/docs/start/*.md "$root"/docs/guides/*.md)
{
  echo '#include <booster/booster.h>'
  echo '#include <fmt/core.h>'
  echo 'using namespace booster;'
  awk '
    /^```cpp$/ { inside = 1; blocks++
                 printf "namespace block_%d {\n#line %d \"%s\"\n", blocks, FNR + 1, FILENAME; next }
    /^```$/ && inside { inside = 0; print "}"; next }
    inside' "${documents[@]}"
} > "$work/blocks.cpp"
blocks=$(grep -c '^namespace block_' "$work/blocks.cpp")
((blocks >= 6)) || { echo "only $blocks blocks of C++ were found"; exit 1; }
"$@" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$root" "$work/blocks.cpp"
echo "$blocks blocks of ${#documents[@]} documents"
