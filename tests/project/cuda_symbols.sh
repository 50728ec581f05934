#!/usr/bin/env bash
# Checks that NVIDIA's libraries have all symbols that the CUDA module looks up by name: in the
# build's toolkit, and in Python's packages if BOOSTER_CUDA_LIBRARIES names some.
# usage: cuda_symbols.sh ROOT NVCC
set -euo pipefail
root=$1 toolkit=$(dirname "$(dirname "$2")")

names_in() {
  grep -oE '"(cublasLt|cudnn|nccl)[A-Z][A-Za-z0-9]*"' "$root/kernels/cuda/$1" | tr -d '"'
}
require() {  # SOURCE COUNT
  (($(names_in "$1" | wc -l) >= $2)) || { echo "names of $1 not found" && exit 1; }
}
require products/blas_lt.cpp 14
require products/cudnn_calls.cpp 21
require collectives/nccl_calls.cpp 17

checked=0
check() {  # SOURCE LIBRARY...
  local source=$1 library exported name
  for library in "${@:2}"; do
    [[ -e $library ]] || continue
    exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//')
    for name in $(names_in "$source"); do
      grep -qx "$name" <<< "$exported" || { echo "$library has no $name" && exit 1; }
    done
    echo "$library has all names" && checked=$((checked + 1))
  done
}
shopt -s nullglob
folders=("$toolkit/lib64" /usr/lib/x86_64-linux-gnu)
IFS=: read -ra named <<< "${BOOSTER_CUDA_LIBRARIES-}"
for each in "${named[@]}"; do folders+=("$each" "$each"/nvidia/*/lib); done
for folder in "${folders[@]}"; do
  check products/blas_lt.cpp "$folder"/libcublasLt.so.1[23]
  check products/cudnn_calls.cpp "$folder"/libcudnn.so.9
  check collectives/nccl_calls.cpp "$folder"/libnccl.so.2
done
((checked > 0)) || { echo "skipped: neither cuBLASLt, cuDNN nor NCCL in ${folders[*]}" && exit 77; }
