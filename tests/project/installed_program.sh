#!/usr/bin/env bash
# Checks that the installed library works for a program outside this tree. Headers, pkg-config file
# and library suffice to build and run the README's loop. They also suffice to build a library with
# a strategy that the installed program loads. The installed headers are exactly booster/booster.h
# and its includes, and the examples need no others.
# usage: installed_program.sh SOURCE_FOLDER BUILD_FOLDER COMPILER [FLAGS...]
set -euo pipefail
export LC_ALL=C  # the same sort order everywhere
tree=$1 build=$2
shift 2
source=$tree/examples/mlp/mlp.cpp strategy=$tree/examples/own_strategy/own_strategy.cpp

layers='platform|kernels|core|parallel|mixed_precision|plugins|booster|tools'
others=$(grep -rnE "^ *# *include *[\"<]($layers)/" \
  "$tree/examples" | grep -v '<booster/booster.h>' || true)
[[ -z $others ]] || { echo "want booster/booster.h alone: $others"; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$root"

# Prints the header's includes, as the preprocessor lists them without conditional parts.
cd "$tree"
mapfile -t included < <("$@" -std=c++20 -fopenmp -MM -I. booster/booster.h |
  tr -s ' \\\n' '\n' | sed 1d | grep . | sort)
((${#included[@]} > 50)) || { echo "only ${#included[@]} headers are included"; exit 1; }
installed=$(cd "$root" && find . -name booster.h -path '*/booster/booster.h')
mapfile -t headers < <(cd "$root/${installed%/booster/booster.h}" && find . -type f |
  cut -c3- | sort)
missing=$(comm -23 <(printf '%s\n' "${included[@]}") <(printf '%s\n' "${headers[@]}"))
[[ -z $missing ]] || { echo "included, not installed: $missing"; exit 1; }
beyond=$(comm -13 <(scripts/public_headers.sh .) <(printf '%s\n' "${headers[@]}"))
[[ -z $beyond ]] || { echo "installed, included by nothing: $beyond"; exit 1; }

pc=$(find "$root" -name booster.pc)
[[ -n $pc ]] || { echo "no booster.pc was installed"; exit 1; }
export PKG_CONFIG_PATH=${pc%/*}  # works in any folder: the file is relocatable
prefix=$(pkg-config --variable=prefix booster)
library=$(dirname "$(find "$root" -name libbooster.so)")
cp "$source" "$root/program.cpp"
cp "$strategy" "$root/strategy.cpp"
cd "$root"
text=$(pkg-config --cflags --libs booster)
eval "flags=($text)"  # words come quoted
"$@" -std=c++20 -O1 program.cpp -o program "${flags[@]}"

text=$(OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$library ./program bf16)
echo "$text"
[[ $text =~ accuracy\ (9[0-9]|100)\. ]] || { echo "want an accuracy of at least 90 %"; exit 1; }
program=$(find "$root" -path '*/bin/booster')
"$program" list >/dev/null
"$@" -std=c++20 -O0 -fPIC -shared strategy.cpp -o libstrategy.so "${flags[@]}"
"$program" list --library ./libstrategy.so fp16_static | grep 'what losses are multiplied by'
echo "installed below $prefix: library, ${#headers[@]} headers, program; a library of one's own"
