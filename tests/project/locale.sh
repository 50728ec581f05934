#!/usr/bin/env bash
# Checks that no source reads or writes numbers by the process's locale. std::from_chars
# (platform/decimal.h) reads text, and fmt writes it. Only platform/json/json_text.h calls
# nlohmann_json, which uses the C library's functions.
# usage: locale.sh ROOT
set -euo pipefail
cd "$1"

failures=0
# refuse WHY PATTERN [ALLOWED_FILE]
refuse() {
  local found
  found=$(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' "$2" \
    platform kernels core parallel mixed_precision plugins booster tools examples |
    grep -v "^${3:-none}:" || true)
  [[ -z $found ]] || { echo "$1:"; echo "$found"; failures=1; }
}
refuse "numbers are read by decimal_number or std::from_chars" \
  '\b(strto(d|f|ld)|sto(d|f|ld)|atof|[fs]?scanf)\('
refuse "numbers are written by fmt" 'printf\(.*%[-+ #0-9.*]*[aefgAEFG]'
refuse "C++ streams read and write no fractions" '(std::setprecision|std::fixed|std::scientific)\b'
refuse "the locale is the program's" '\b(setlocale\(|std::locale\b|imbue\()'
refuse "numbers are formatted without a locale" '\{[^}"]*:[^}"]*L\}'
refuse "JSON is read by platform/json/json_text.h" '([jJ]son|Json)::(parse|sax_parse|accept)\(' \
  platform/json/json_text.h
((failures == 0))
