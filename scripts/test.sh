#!/usr/bin/env bash
# Builds and runs every test; installs missing packages first. The last line is
# `N passed, N failed, N skipped` (scripts/count_tests.awk defines the counts).
#   scripts/test.sh [--thorough | --shares LIST] [--sanitize[=thread]] [--werror] [--suite SUITE]
# A drawn test makes one share of its draws, share 0 of 11 (tests/draws.h). --thorough: all shares.
# --shares 0,7: those shares.
# --sanitize: under AddressSanitizer and UBSan. --sanitize=thread: under ThreadSanitizer, by default
# the suites of layers that have threads of their own. --werror: warnings are errors.
# --suite: the tests of one layer (kernels, nn, ..., project).
set -euo pipefail
cd "$(dirname "$0")/.."

usage_error() {
  echo "test: $1; want scripts/test.sh [--thorough | --shares LIST]" \
    "[--sanitize[=thread]] [--werror] [--suite SUITE]" >&2
  exit 2
}

# A test spends much of its time waiting for its processes, or for a time-out.
processes=$(($(nproc) + 1))
build=build setup=() selection=() suites=() shares=0
sanitize() {
  build=$1
  processes=$(nproc)
  setup+=(-Dbuildtype=debug -Doptimization=1 "-Db_sanitize=$2" -Db_lundef=false)
  setup+=(-Dbenchmarks=false -Dcuda=disabled -Dcpp_args=-g1)  # lines for reports, a faster build
  selection+=(--timeout-multiplier "$3")
  export TEST_PATIENCE=$3
}
while (($# > 0)); do
  case $1 in
    --sanitize) sanitize build-sanitize address,undefined 4 ;;
    --sanitize=thread)
      sanitize build-thread thread 10
      export OMP_NUM_THREADS=1  # it does not understand libgomp's synchronisation
      # Tests that have threads fork run tools, which start threads too.
      export TSAN_OPTIONS=suppressions=$PWD/scripts/thread_sanitizer.supp:die_after_fork=0
      ;;
    --werror) setup+=(-Dwerror=true) ;;
    --thorough) shares=all ;;
    --shares)
      [[ ${2-} =~ ^(all|([0-9]|10)(,([0-9]|10))*)$ ]] ||
        usage_error "--shares names no share of 0 to 10; got '${2-}'"
      shares=$2
      shift
      ;;
    --suite)
      (($# > 1)) && [[ -d tests/$2 ]] || usage_error "--suite names no folder of tests; got '${2-}'"
      suites+=("$2")
      shift
      ;;
    *) usage_error "unknown argument; got $1" ;;
  esac
  shift
done

if [[ $build == build-thread && ${#suites[@]} == 0 ]]; then
  suites=(autograd data parallel plugins)
fi
for suite in "${suites[@]}"; do selection+=(--suite "$suite"); done

log=$build/meson-logs/testlog.txt
count() {
  local status=$?
  if [[ -e $log ]]; then
    awk -f scripts/show_failures.awk "$log"
    grep '^skipped: ' "$log" || true
    awk -f scripts/count_tests.awk "$log"
  else
    echo "0 passed, 1 failed, 0 skipped"  # nothing could be run
    status=1
  fi
  exit "$status"
}
rm -f "$log"
trap count EXIT

scripts/packages.sh
if [[ ! -e $build/build.ninja ]]; then
  meson setup "$build" --native-file scripts/batches.ini "${setup[@]}"
elif ((${#setup[@]} > 0)); then
  meson configure "$build" "${setup[@]}"
fi
ninja -C "$build"

export TEST_SHARES=$shares
echo "drawn tests use share $shares; to repeat: scripts/test.sh --shares $shares"
# Idle OpenMP threads sleep instead of spinning: tests run in parallel.
export OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=allocator_may_return_null=1  # tests request more memory than exists
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes "$processes" \
  "${selection[@]}"
