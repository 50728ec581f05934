# Reads Meson's testlog.txt and prints the blocks in which doctest tells of a failed check: the end of
# the log, which Meson shows, may hold none of them.
function flush_block() {
  if (failed) printf "%s", block
  block = ""
  lines = failed = 0
}
/^=+ [0-9]+\/[0-9]+ =+$/ || /^=+$/ || /^\[doctest\]/ { flush_block(); inside = /^=+$/; next }
!inside { next }
lines < 60 { block = block $0 "\n"; ++lines }
/ ERROR: | FATAL ERROR: |^TEST CASE.*TIMEOUT/ { failed = 1 }
END { flush_block() }
