#!/usr/bin/env bash
# Builds and runs every test; installs missing packages first. The last line is
# `N passed, N failed, N skipped`, the sum over all programs of doctest's test cases, with one for
# each test that is not doctest's.
#   scripts/test.sh [--sanitize] [--suite ROOM]
# --sanitize: under AddressSanitizer and UBSan. --suite: one room (kernels, nn, ..., project).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "test: $1; want scripts/test.sh [--sanitize] [--suite ROOM]" >&2
  exit 2
}

build=build setup=() suite=()
while (($# > 0)); do
  case $1 in
    --sanitize)
      build=build-sanitize
      setup=(-Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false
             -Dbenchmarks=false)
      ;;
    --suite) suite=(--suite "${2:?test: --suite wants the name of a room}"); shift ;;
    *) usage "unknown argument; got $1" ;;
  esac
  shift
done

scripts/packages.sh
[[ -e $build/build.ninja ]] || meson setup "$build" "${setup[@]}"
ninja -C "$build"

# Idle OpenMP threads sleep rather than spin: tests run side by side.
export OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
failed=0
meson test -C "$build" --no-rebuild --print-errorlogs "${suite[@]}" || failed=1

counts=$(awk '
  function finish() {
    if (result == "") return
    if (cases == "") {                                  # not doctest: one test
      if (result ~ /SKIP/) skipped++; else if (result ~ /OK/) passed++; else failed++
    } else if (result !~ /OK/ && case_failures == 0) {  # crashed after its last case
      failed++
    }
  }
  /^=+ [0-9]+\/[0-9]+ =+$/ { finish(); result = cases = ""; case_failures = 0; next }
  /^result:/ && result == "" { result = $0 }
  /^\[doctest\] test cases:/ {
    cases = $0
    gsub(/[^0-9 ]/, " ", cases)
    split(cases, n, " ")
    passed += n[2]; failed += n[3]; skipped += n[4]; case_failures += n[3]
  }
  END { finish(); printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
' "$build/meson-logs/testlog.txt")
echo "$counts"
((failed == 0)) && [[ $counts == *", 0 failed,"* ]]
