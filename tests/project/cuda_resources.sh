#!/usr/bin/env bash
# Compares the GPU kernels' registers, spills, stack frames and shared memory with
# tests/golden/cuda_resources.txt: the maximum over each source's kernels, on sm_90. Arrays with an
# index unknown to the compiler need stack frames. A smaller number is an error too, so that the
# file stays correct; `cuda_resources.sh --write ROOT OBJECTS...` rewrites it.
# usage: cuda_resources.sh ROOT OBJECTS_FOLDER
set -euo pipefail
write=
[[ $1 != --write ]] || { write=yes; shift; }
golden=$1/tests/golden/cuda_resources.txt
folder=$2

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
shopt -s nullglob
files=("$folder"/*.resources)
((${#files[@]} > 5)) || { echo "only ${#files[@]} sources with resources in $folder"; exit 1; }

arch=sm_90
grep -q "for '$arch'" "${files[0]}" || {
  echo "skipped: this build has no code for $arch (-Dgpu_arch)"
  exit 77
}

use_of() {  # FILE: "source registers spilled stack shared"
  awk -v source="$(basename "$1" .cuda.o.resources)" -v arch="'$arch'" '
    / Compiling entry function / { counts = $NF == arch }
    !counts { next }
    / Used [0-9]+ registers/ {
      for (i = 1; i <= NF; ++i) {
        if ($i == "registers,") registers = registers > $(i - 1) ? registers : $(i - 1) + 0
        if ($i ~ /^smem/) shared = shared > $(i - 2) ? shared : $(i - 2) + 0
      }
    }
    / bytes spill stores/ {
      spilled = spilled > $5 ? spilled : $5 + 0
      stack = stack > $1 ? stack : $1 + 0
    }
    END { print source, registers + 0, spilled + 0, stack + 0, shared + 0 }' "$1"
}
got=$(for file in "${files[@]}"; do use_of "$file"; done | sort)

if [[ -n $write ]]; then
  {
    echo "# The most that any kernel of a source uses, by nvcc $version for sm_90:"
    echo "# source, registers, bytes spilled, bytes of a stack frame, bytes of shared memory"
    echo "$got"
  } > "$golden"
  exit
fi
grep -q "by nvcc $version for" "$golden" || {
  echo "skipped: the numbers are another compiler's; got nvcc $version"
  exit 77
}
diff <(grep -v '^#' "$golden") <(echo "$got") || {
  echo "the kernels use other resources than $golden says"
  exit 1
}
echo "$(wc -l <<<"$got") sources use the resources that they did"
