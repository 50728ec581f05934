#!/usr/bin/env bash
# Compiles for GPUs, and keeps the kernels' use of resources next to the object: OUTPUT.resources,
# ptxas's output (tests/project/cuda_resources.sh reads them). usage: compile.sh OUTPUT NVCC
# ARGUMENTS...
set -euo pipefail
output=$1
shift
"$@" -Xptxas -v -o "$output" 2> "$output.log" || { cat "$output.log" >&2; exit 1; }
of_ptxas='^ptxas info|^ +[0-9]+ bytes stack frame'
grep -E "$of_ptxas" "$output.log" > "$output.resources" || true
grep -vE "$of_ptxas|^$" "$output.log" >&2 || true
rm "$output.log"
