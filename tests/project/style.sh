#!/usr/bin/env bash
# Checks what a formatter would fix: no tabs, no spaces at the end of a line, a newline at the end
# of a file, lines of code within 100 columns (tables, *.def, may have long rows). Also finds writes
# to stderr that may throw, uses that must go through one function, and files that a test left in
# the source tree.
# usage: style.sh ROOT
set -euo pipefail
cd "$1"

mapfile -t files < <(find . \( -path './build*' -o -path ./.git -o -path './out*' \) -prune \
  -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.def' -o -name '*.cu' -o -name '*.sh' \
  -o -name '*.py' -o -name '*.md' -o -name '*.json' -o -name 'meson*' \) \
  -not -path './tests/golden/*/*' -print | sort)
((${#files[@]} > 200)) || { echo "only ${#files[@]} files were found"; exit 1; }

failures=0
report() { [[ -z $2 ]] || { echo "$1:"; echo "$2"; failures=1; }; }

report "file names with odd characters" "$(find . \( -path './build*' -o -path ./.git \
  -o -path './out*' -o -path './tests/fuzz/corpus' \) -prune -o -name '*[!A-Za-z0-9._+@-]*' -print)"
report "tabs" "$(grep -nP '\t' "${files[@]}" || true)"
report "spaces at the end of a line" "$(grep -nE ' +$' "${files[@]}" || true)"
report "carriage returns" "$(grep -nP '\r' "${files[@]}" || true)"
report "no newline at the end" "$(for file in "${files[@]}"; do
  [[ ! -s $file || -z $(tail -c 1 "$file") ]] || echo "$file"
done)"
mapfile -t code < <(printf '%s\n' "${files[@]}" |
  grep -E '\.(h|cpp|cu|sh)$|/meson[^/]*$')
report "lines over 100 columns" "$(grep -nP '^.{101,}$' "${code[@]}" || true)"
report "headers without #pragma once" "$(printf '%s\n' "${code[@]}" | grep '\.h$' |
  xargs grep -L '^#pragma once' || true)"
mapfile -t sources < <(printf '%s\n' "${code[@]}" | grep -E '\.(h|cpp|cu)$' |
  grep -vE '^\./(tests/|platform/warn\.cpp$)')
report "stderr is written to by warn (platform/warn.h), which never throws" \
  "$(grep -nE '(print|printf)\(stderr|, ?stderr\)|std::cerr' "${sources[@]}" || true)"
mapfile -t library < <(printf '%s\n' "${sources[@]}" |
  grep -vE '^\./(examples/|platform/(environment|name_pattern)\.h$)')
report "the environment is read by platform/environment.h, patterns of names by name_pattern.h" \
  "$(grep -nE '\b(getenv|fnmatch)\(' "${library[@]}" || true)"
report "unfinished work" "$(grep -nE '\b(TO''DO|FIX''ME|XX''X)\b' "${files[@]}" || true)"
echo "${#files[@]} files"
((failures == 0))
