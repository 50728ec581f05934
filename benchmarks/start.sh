#!/usr/bin/env bash
# Measures the cost of getting started, one JSON object per line: start of programs (median of 9
# runs), compiling the README's program, size of the library without symbols.
#   benchmarks/start.sh
# BUILD names the build folder (build).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# report WORK FIELD VALUE
report() { printf '{"benchmark": "start", "work": "%s", "%s": %s}\n' "$@"; }

# Prints the seconds of a command, by the shell's clock.
seconds_of() {
  local TIMEFORMAT=%R
  { time "$@" >/dev/null 2>&1; } 2>&1
}
median_of() {
  for _ in 1 2 3 4 5 6 7 8 9; do seconds_of "$@"; done | sort -n | sed -n 5p
}

report "vit_caltech101 --help" seconds "$(median_of "$build/examples/vit_caltech101" --help)"
first=$(median_of "$build/benchmarks/first_step")
report "a program to the end of its first step" seconds "$first"

meson install -C "$build" --no-rebuild --quiet --destdir "$scratch/installed" >/dev/null
pc=$(find "$scratch/installed" -name booster.pc)
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$scratch/installed
# The sysroot is for our own paths: dependencies come from the machine.
dependencies=$scratch/installed/usr/include
flags=$(pkg-config --cflags --libs booster | sed "s|-I$dependencies|-I/usr/include|g")
compile=(c++ -std=c++20 "$root/examples/mlp/mlp.cpp" -o "$scratch/mlp" $flags)
report "compile the README's program with -O0" seconds "$(seconds_of "${compile[@]}")"

library=$(find "$scratch/installed" -name 'libbooster.so.*.*')
strip "$library"
report "libbooster.so without symbols" megabytes "$(($(stat -c %s "$library") / 1000000))"
