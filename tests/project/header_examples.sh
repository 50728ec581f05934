#!/usr/bin/env bash
# Checks that installed headers declare all functions that the examples in their comments call.
# usage: header_examples.sh ROOT
set -euo pipefail
export LC_ALL=C  # the same sort order everywhere
cd "$1"

mapfile -t public < <(scripts/public_headers.sh .)
((${#public[@]} > 50)) || { echo "only ${#public[@]} headers are installed"; exit 1; }
mapfile -t others < <(find platform kernels core parallel mixed_precision plugins booster tools \
  -name '*.h' | sort | comm -23 - <(printf '%s\n' "${public[@]}"))

# Prints the types, and functions outside of classes, that these headers declare.
declared_in() {
  cat "$@" | sed 's#//.*##' | grep -oP '^[A-Za-z].*?\b\K\w+(?=\()|^(class|struct) \K\w+' | sort -u
}
# Prints the words of their code.
words_in() { cat "$@" | sed 's#//.*##' | grep -oP '\w+' | sort -u; }
# Prints the names that examples call or construct. Lines of examples are indented within a comment;
# a name after a type is a variable.
called_in() {
  grep -ohP '^\s*// {2,}\S.*' "$@" | grep -oP '(?<!\w )\b\w+(?=[({])' | sort -u
}

missing=$(called_in "${public[@]}" | comm -12 - <(declared_in "${others[@]}") |
  comm -23 - <(words_in "${public[@]}"))
[[ -z $missing ]] || { echo "used in examples, declared in no installed header:" $missing; exit 1; }
echo "$(called_in "${public[@]}" | wc -l) names in the examples of ${#public[@]} headers"
