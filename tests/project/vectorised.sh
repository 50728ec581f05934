#!/usr/bin/env bash
# The loops of optimizer steps are vectorised: a structure or a branch in one of them may keep g++
# from it, and the step then takes three times as long, which no other test sees. Told by the square
# roots: a loop that takes them has packed ones, of 32 bytes in this variant.
# usage: vectorised.sh OBJDUMP ARCHIVE_OF_THE_AVX2_VARIANT
set -euo pipefail
"$1" --disassemble --demangle --no-show-raw-insn "$2" | awk '
  /^[0-9a-f]+ </ { name = $0; loop = name ~ /::update_(values|moments)</ }
  loop && /vsqrt[ps][sd] / { roots[name] = 1 }
  loop && /vsqrtp[sd] .*%ymm/ { packed[name] = 1 }
  END {
    for (name in roots) {
      ++count
      if (name in packed) continue
      print "a loop is not vectorised: " name
      ++failures
    }
    print count + 0 " loops with square roots"
    if (count == 0) {
      print "skipped: this compiler makes no functions of them"
      exit 77
    }
    exit failures > 0
  }'
