# Reads Meson's testlog.txt and prints `N passed, N failed, N skipped`: doctest's test cases summed
# over its programs, plus one for each other test. Cases that are parts of other cases
# (tests/main.cpp) count once, with the case that runs them, whose program sums up last. A test that
# picks cases by name (-tc=) or file (-sf=, -sfe=) skips none by leaving the others to another test.
function finish() {
  if (result == "") return
  ok = result ~ /exit status 0$/
  if (!is_doctest) {
    if (ok) passed++
    else if (result ~ /exit status 77$/) skipped++
    else failed++
    return
  }
  passed += cases_passed
  failed += cases_failed
  if (!ok && cases_failed == 0) failed++  # crashed or timed out
  if (!picks_cases) skipped += cases_skipped - parts
}
/^=+ [0-9]+\/[0-9]+ =+$/ {
  finish()
  result = ""
  is_doctest = cases_passed = cases_failed = cases_skipped = parts = picks_cases = 0
  next
}
/^command:/ { picks_cases = /-(tc|sf|sfe)=/ }
/^result:/ && result == "" { result = $0 }
/^\[doctest\]/ { is_doctest = 1 }
/^\[doctest\] test cases:/ {
  gsub(/[^0-9 ]/, " ")
  split($0, n, " ")
  cases_passed = n[2]; cases_failed = n[3]; cases_skipped = n[4]
}
/^\[doctest\] skipped as parts of other cases:/ { parts = $NF }
END { finish(); printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
