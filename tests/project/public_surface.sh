#!/usr/bin/env bash
# The library installs few headers, so that a program's author can read them: at most `most` of
# them, each at most `longest` lines, all together at most `most_lines`. booster.h names those to
# read first.
# usage: public_surface.sh ROOT
set -euo pipefail
cd "$1"
most=60
most_lines=10350
longest=345

mapfile -t headers < <(scripts/public_headers.sh .)
((${#headers[@]} > 20)) || { echo "only ${#headers[@]} headers were found"; exit 1; }
failures=0
complain() {
  echo "$1"
  failures=$((failures + 1))
}

if ((${#headers[@]} > most)); then
  printf '%s\n' "${headers[@]}"
  complain "${#headers[@]} headers are installed; want at most $most"
fi
total=$(cat "${headers[@]}" | wc -l)
((total <= most_lines)) ||
  complain "the installed headers have $total lines; want at most $most_lines"
for header in "${headers[@]}"; do
  lines=$(wc -l <"$header")
  ((lines <= longest)) || complain "$header has $lines lines; want at most $longest"
done

# The list "to read first" in booster.h: ten real files, all installed.
mapfile -t first < <(sed -n '/^\/\/ Read these first/,/^#pragma once/p' booster/booster.h |
  grep -oE '[a-z0-9_]+(/[a-z0-9_]+)+\.h')
((${#first[@]} == 10)) ||
  complain "booster.h names ${#first[@]} headers to read first; want 10"
for header in "${first[@]}"; do
  [[ -f $header ]] || complain "booster.h: no such header to read first; got $header"
  [[ " ${headers[*]} " == *" $header "* ]] || complain "$header is not installed"
done

echo "${#headers[@]} headers, $total lines are installed"
exit $((failures > 0))
