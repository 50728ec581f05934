# Reads Meson's testlog.txt and prints the blocks in which doctest tells of a failed check: the end of
# the log, which Meson shows, may hold none of them. Their names come last, for who sees an end only.
function flush_block() {
  if (failed) printf "%s", block
  if (failed) names = names "failed: " program ": " name "\n"
  block = ""
  lines = failed = 0
}
/^test:/ { program = $NF }
/^result:/ && !/exit status (0|77)$/ { names = names "failed: " program ", " substr($0, 15) "\n" }
/^TEST CASE:/ { name = substr($0, 13) }
/^=+ [0-9]+\/[0-9]+ =+$/ || /^=+$/ || /^\[doctest\]/ { flush_block(); inside = /^=+$/; next }
!inside { next }
lines < 60 { block = block $0 "\n"; ++lines }
/ ERROR: | FATAL ERROR: |^TEST CASE.*TIMEOUT/ { failed = 1 }
END { flush_block(); printf "%s", names }
