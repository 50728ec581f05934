#!/usr/bin/env bash
# Checks that Precision and Plugin stay small: each has a limited number of virtual functions,
# without destructors. Other interfaces in the same file have their own counts.
# usage: interface_sizes.sh ROOT
set -euo pipefail
cd "$1"

# virtuals FILE CLASS: counts them in the body of this class.
virtuals() {
  awk -v class="$2" '
    $0 ~ "^class " class "( |$)" && !/;[[:space:]]*$/ { inside = 1; ++found }
    inside && /^};/ { inside = 0 }
    inside && /^[[:space:]]*virtual / && !/~/ { ++count }
    END {
      if (found != 1) exit 1
      print count + 0
    }' "$1"
}

failures=0
while read -r file class most; do
  count=$(virtuals "$file" "$class") || { echo "$file: no class $class"; exit 1; }
  ((count > 0)) || { echo "$file: no virtual function of $class was found"; exit 1; }
  echo "$class: $count virtual functions, at most $most"
  if ((count > most)); then
    echo "$file: $class has $count virtual functions; want at most $most"
    failures=$((failures + 1))
  fi
done <<'ROWS'
mixed_precision/interface/precision.h Precision 14
plugins/interface/plugin.h Plugin 14
ROWS
exit $((failures > 0))
