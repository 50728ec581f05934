#!/usr/bin/env bash
# docs/reference/coverage.md is what scripts/coverage.sh makes; every name that it gives as ours is
# declared in an installed header; and no more rows are missing than each section allows.
# usage: coverage.sh ROOT
set -euo pipefail
cd "$1"
data=docs/reference/coverage.def
made=$(mktemp) declared=$(mktemp)
trap 'rm -f "$made" "$declared"' EXIT
failures=0

scripts/coverage.sh "$made"
diff docs/reference/coverage.md "$made" || {
  echo "docs/reference/coverage.md is old; want: scripts/coverage.sh"
  failures=1
}

# Names before "(", after class or struct, and in rows of elementwise.def.
mapfile -t headers < <(scripts/public_headers.sh .)
grep -hoE '\b[A-Za-z_0-9]+ ?\(|\b(class|struct) [A-Za-z0-9]+|\b(UNARY|BINARY|COMPARE)\([a-z0-9_]+' \
  "${headers[@]}" | sed -E 's/ ?\($//; s/^.*[( ]//' | sort -u > "$declared"
while read -r name; do
  grep -qx -- "$name" "$declared" || {
    echo "$data: no such name in an installed header; got $name"
    failures=1
  }
done < <(awk -F ' \\| ' '
  !/^#/ && NF >= 2 && $2 !~ /^[-~]$/ { gsub(/, /, "\n", $2); print $2 }' "$data" | sort -u)

awk -F ' \\| ' '
  /^## / { section = substr($1, 4); most[section] = $2; next }
  /^#/ || NF < 2 { next }
  $2 != "~" { n = split($1, names, /, /); all[section] += n; if ($2 == "-") missing[section] += n }
  seen[section, $1]++ { print "a row occurs twice: " $1; bad = 1 }
  $2 ~ /^[-~]$/ && $3 == "" { print "a missing row names nothing to use: " $1; bad = 1 }
  END {
    for (s in all) {
      share = 100 * missing[s] / all[s]
      printf "%s: %d of %d are missing (%.1f %%)\n", s, missing[s], all[s], share
      if (share > most[s]) { print s ": want at most " most[s] " % missing"; bad = 1 }
    }
    exit bad
  }' "$data" || failures=1
exit "$failures"
