#!/usr/bin/env bash
# The installed library works for a program outside this tree: headers, pkg-config file and library
# are enough to build and run the README's loop, and to build a library with a strategy that the
# installed program loads.
# usage: installed_program.sh BUILD_FOLDER PROGRAM.cpp STRATEGY.cpp COMPILER [FLAGS...]
set -euo pipefail
build=$1 source=$2 strategy=$3
shift 3

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$root"

pc=$(find "$root" -name booster.pc)
[[ -n $pc ]] || { echo "no booster.pc was installed"; exit 1; }
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
prefix=$(pkg-config --variable=prefix booster)
library=$(dirname "$(find "$root" -name libbooster.so)")
cp "$source" "$root/program.cpp"
cp "$strategy" "$root/strategy.cpp"
cd "$root"
# The sysroot is for our own paths: dependencies come from the machine. Words come quoted, for eval.
text=$(pkg-config --cflags --libs booster)
eval "flags=($text)"
flags=("${flags[@]/#-I$root\/usr\/include/-I/usr/include}")
"$@" -std=c++20 -O1 program.cpp -o program "${flags[@]}"

text=$(OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$library ./program bf16)
echo "$text"
[[ $text =~ accuracy\ (9[0-9]|100)\. ]] || { echo "want an accuracy of at least 90 %"; exit 1; }
program=$(find "$root" -path '*/bin/booster')
"$program" list >/dev/null
"$@" -std=c++20 -O0 -fPIC -shared strategy.cpp -o libstrategy.so "${flags[@]}"
"$program" list --library ./libstrategy.so fp16_static | grep 'what losses are multiplied by'
echo "installed below $prefix: library, headers, program; a library of one's own"
