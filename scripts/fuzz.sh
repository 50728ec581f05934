#!/usr/bin/env bash
# Fuzzes a parser with libFuzzer; needs clang (apt install clang libomp-dev). Inputs that reach new
# code are kept in build-fuzz/corpus, findings in build-fuzz/findings. Reproduce one by
# `build-fuzz/tests/fuzz/fuzz_TARGET FILE`, and put it into tests/fuzz/corpus/TARGET with the fix.
#   scripts/fuzz.sh TARGET [SECONDS]
# TARGET: a folder of tests/fuzz/corpus. SECONDS: 60.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1-} seconds=${2-60} corpus=$PWD/tests/fuzz/corpus
if [[ -z $target || ! -d $corpus/$target ]]; then
  echo "fuzz: no such target; got '$target', want one of" $(ls "$corpus") >&2
  exit 2
fi
command -v clang++ >/dev/null || { echo "fuzz: no clang++; want apt install clang" >&2; exit 2; }

if [[ ! -e build-fuzz/build.ninja ]]; then
  CXX=clang++ meson setup build-fuzz -Dfuzz=enabled -Dbuildtype=debugoptimized \
    -Db_sanitize=address,undefined -Db_lundef=false -Dcuda=disabled -Dbenchmarks=false
fi
ninja -C build-fuzz "tests/fuzz/fuzz_$target"

mkdir -p "build-fuzz/corpus/$target" "build-fuzz/findings/$target"
for seed in "build-fuzz/tests/fuzz/seed_${target}_"*; do  # of meson.build there
  [[ ! -e $seed ]] || cp "$seed" "build-fuzz/corpus/$target"
done
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 OMP_NUM_THREADS=1
"build-fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
  -artifact_prefix="build-fuzz/findings/$target/" "build-fuzz/corpus/$target" "$corpus/$target"
