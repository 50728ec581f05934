#!/usr/bin/env bash
# Checks that g++ vectorises the loops of optimizer steps. A structure or a branch in a loop may
# prevent that; the step then takes three times as long, and no other test notices. The sign is a
# loop's square roots: vectorised ones are packed, 32 bytes in this variant.
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
