#!/usr/bin/env bash
# What the examples in the comments of installed headers call is declared in installed headers.
# usage: header_examples.sh ROOT
set -euo pipefail
export LC_ALL=C  # one order of names
cd "$1"

mapfile -t public < <(scripts/public_headers.sh .)
((${#public[@]} > 50)) || { echo "only ${#public[@]} headers are installed"; exit 1; }
mapfile -t others < <(find platform kernels core parallel mixed_precision plugins booster tools \
  -name '*.h' | sort | comm -23 - <(printf '%s\n' "${public[@]}"))

# Functions, outside of classes, and types that these headers declare.
declared_in() {
  cat "$@" | sed 's#//.*##' | grep -oP '^[A-Za-z].*?\b\K\w+(?=\()|^(class|struct) \K\w+' | sort -u
}
# Words of their code.
words_in() { cat "$@" | sed 's#//.*##' | grep -oP '\w+' | sort -u; }
# Names that lines of examples, which are indented within a comment, call or construct; a name after
# a type is a variable's.
called_in() {
  grep -ohP '^\s*// {2,}\S.*' "$@" | grep -oP '(?<!\w )\b\w+(?=[({])' | sort -u
}

missing=$(called_in "${public[@]}" | comm -12 - <(declared_in "${others[@]}") |
  comm -23 - <(words_in "${public[@]}"))
[[ -z $missing ]] || { echo "used in examples, declared in no installed header:" $missing; exit 1; }
echo "$(called_in "${public[@]}" | wc -l) names in the examples of ${#public[@]} headers"
