#!/usr/bin/env bash
# Checks that a wrong number of arguments to Module::add is one error, which says so.
# usage: wrong_add.sh ROOT COMPILER [FLAGS...]
set -euo pipefail
cd "$1"
shift

# Prints the compiler's messages about a module that adds its part by `arguments`.
compiled() {
  "${compiler[@]}" -std=c++20 -fsyntax-only -fopenmp -w -I. -x c++ - 2>&1 <<PROGRAM || true
#include "core/nn/layers.h"
struct Net : booster::Module {
  Net() : Module("Net") {}
  booster::Linear& part = add<booster::Linear>($1);
};
PROGRAM
}
compiler=("$@")

right=$(compiled '"part", 4, 2, {.bias = false}')
[[ -z $right ]] || { echo "a right call does not compile: $right"; exit 1; }
wrong=$(compiled '"part", 4')
errors=$(grep -c 'error:' <<<"$wrong") || true
((errors == 1)) || { echo "a wrong call gives $errors errors; want 1: $wrong"; exit 1; }
grep -q 'add: the module has no constructor that takes these arguments' <<<"$wrong" ||
  { echo "the error does not say what is wrong: $wrong"; exit 1; }
