# Reads Meson's testlog.txt and prints `N passed, N failed, N skipped`: doctest's test cases summed
# over its programs, plus one for each other test. Cases that are parts of other cases (tests/main.cpp)
# count once, with the case that runs them; so do cases for a GPU, which the suites *_on_device run
# and nothing else.
function finish() {
  if (result == "") return
  ok = result ~ /exit status 0$/
  if (!is_doctest) {
    if (ok) passed++
    else if (result ~ /exit status 77$/) skipped++
    else failed++
  } else if (!ok && case_failures == 0) {  # crashed or timed out
    failed++
  }
}
/^=+ [0-9]+\/[0-9]+ =+$/ { finish(); result = ""; is_doctest = case_failures = 0; next }
/^test:/ { is_on_device = $NF ~ /_on_device$/ }
/^result:/ && result == "" { result = $0 }
/^\[doctest\]/ { is_doctest = 1 }
/^\[doctest\] test cases:/ {
  gsub(/[^0-9 ]/, " ")
  split($0, n, " ")
  passed += n[2]; failed += n[3]; case_failures += n[3]
  if (!is_on_device) skipped += n[4]
}
/^\[doctest\] skipped as parts of other cases:/ { if (!is_on_device) skipped -= $NF }
END { finish(); printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
