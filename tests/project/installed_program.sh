#!/usr/bin/env bash
# The installed library serves a program outside this tree: headers, pkg-config file and library
# are enough to build and run the README's loop.
# usage: installed_program.sh BUILD_FOLDER PROGRAM.cpp COMPILER [FLAGS...]
set -euo pipefail
build=$1 source=$2
shift 2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$root"

pc=$(find "$root" -name booster.pc)
[[ -n $pc ]] || { echo "no booster.pc was installed"; exit 1; }
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
prefix=$(pkg-config --variable=prefix booster)
library=$(dirname "$(find "$root" -name libbooster.so)")
cp "$source" "$root/program.cpp"
cd "$root"
# The sysroot is for our own paths: dependencies come from the machine.
flags=$(pkg-config --cflags --libs booster | sed "s|-I$root/usr/include|-I/usr/include|g")
"$@" -std=c++20 -O1 program.cpp -o program $flags

text=$(OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$library ./program bf16)
echo "$text"
[[ $text =~ accuracy\ (9[0-9]|100)\. ]] || { echo "want an accuracy of at least 90 %"; exit 1; }
program=$(find "$root" -path '*/bin/booster')
LD_LIBRARY_PATH=$library "$program" list >/dev/null
echo "installed below $prefix: library, headers, program"
