#!/usr/bin/env bash
# Finds code that clang refuses or warns about and g++ accepts, within seconds. Compiles the public
# header, programs that use it, and the sources that depend on the compiler, the processor and
# OpenMP's runtime. A build with CXX=clang++ checks everything.
# usage: clang.sh ROOT [CLANG]
set -euo pipefail
cd "$1"
clang=${2-clang++}
command -v "$clang" >/dev/null || { echo "skipped: no $clang here"; exit 77; }
compile=("$clang" -std=c++20 -fsyntax-only -fopenmp -Wall -Wextra -Werror -Wno-unknown-pragmas -I.
         -DBOOSTER_VARIANT=portable)
"${compile[@]}" -x c++ - <<<'#include <omp.h>' 2>/dev/null || {
  echo "skipped: $clang has no OpenMP here (libomp-dev)"
  exit 77
}

sources=(
  examples/mlp/mlp.cpp examples/own_model/own_model.cpp examples/own_plugin/own_plugin.cpp
  examples/own_strategy/own_strategy.cpp
  core/data/images/resample_rows.cpp core/optim/schedules/lr_schedules.cpp
  kernels/attention/forward.cpp kernels/dispatch/catalogue.cpp kernels/cpu/library.cpp
  kernels/optimizer/optimizer_step.cpp platform/threads.cpp
)
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} "${compile[@]}" {}
echo "$("$clang" --version | head -n 1): ${#sources[@]} sources have no errors and no warnings"
