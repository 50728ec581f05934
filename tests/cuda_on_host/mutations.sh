#!/usr/bin/env bash
# The tests see what is broken in the real sources: each line of the list below takes something out
# of one, and a test that passes with the source as it is must fail without. Nothing is changed in
# the tree or in the build folder. Line n of the list belongs to share n % 11, as draws do; the
# variable TEST_SHARES names the shares to run (tests/draws.h).
# usage: mutations.sh ROOT BUILD
set -euo pipefail
root=$(realpath "$1") build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=tests/cuda_on_host/libbooster_cuda_on_host.so
ninja -C "$build" -t commands "$module" > "$work/commands"

# missing part | source in kernels/cuda | its object | sed command that removes it | test | cases
host_reads='s/CUDA_CALL(cudaMemcpyAsync(\(.*\), cudaMemcpyDefault.*/__builtin_memcpy(\1);/'
drawn='kernels_test|GPU: drawn conv*'
by_cudnn=products/library_convolution plan=products/convolution_plan
by_lt=products/library_product.cpp of_lt=library_product.cpp.o
layers='kernels_test|GPU: drawn linear layers*'
fp8=products/fp8_product.cu turned=fp8_product.host.o
lt8=products/library_fp8_product.cpp by_codes=library_fp8_product.cpp.o
codes='kernels_test|GPU: drawn products of 8-bit*'
stepped='kernels_test|GPU: drawn parameters*' rounded='kernels_test|GPU: values are rounded*'
walk=optimizer_walk.cuh steps=optimizer_step.host.o run=packed_run.cuh of_run=multi_tensor.host.o
begins='kernels_test|GPU: drawn tensors*' norms='kernels_test|GPU: a norm*'
drops='kernels_test|GPU: the same seed*' codes8='kernels_test|GPU: 8-bit floats are cast*'
folds='kernels_test|GPU: every reduction*' adds='kernels_test|GPU: index_add*'
heads='kernels_test|GPU: attention by tiles has heads*'
replays='tensor_test|GPU: a replay*,GPU: other threads*,GPU: a kernel*' graph=runtime/graph.cpp
scratch='runtime/scratch.cpp|runtime_scratch.cpp.o'
in_parts='kernels_test|GPU: attention by products in parts*' back=attention_backward
by_rows=attention/score_rows.cuh tokens=attention/head_tokens.cuh of_att=attention_forward.host.o
tiles=attention/tile parts=attention/fragments.cuh
forward=tile_forward.host.o backward=tile_backward.host.o
patch=products/patch_convolution whole='nn_test|GPU: drawn convolutions of whole*'
turn=elementwise/turned_copy.cuh orders='kernels_test|GPU: copies between drawn orders*'
mutations="
a barrier|index/sort.cu|sort.host.o|0,/  __syncthreads();/s///|kernels_test|GPU: rows are sorted*
a bound|index/sort.cu|sort.host.o|s/ && i < n; ++i/; ++i/|kernels_test|GPU: rows are sorted*
a wait|runtime/staging.cpp|staging.cpp.o|/arrived->precede(nullptr);/d|data_test|GPU: memory is*
an event|runtime/events.cpp|events.cpp.o|/cudaStreamWaitEvent/d|tensor_test|GPU: a foreign*
an alignment|$by_cudnn.cpp|library_convolution.cpp.o|s/ % alignment != 0/ % 2 != 0/|$drawn
a workspace|$plan.cpp|convolution_plan.cpp.o|s/workspace(workspace_bytes_)/workspace(0)/|$drawn
a check of a bias's dtype|$by_lt|$of_lt|s/bias.dtype == out.dtype/true/|$layers
a bias's alignment|$by_lt|$of_lt|s/ ? alignment_of(bias.data)/ ? 256/|$layers
a barrier, codes are turned|$fp8|$turned|s/^  __syncthreads();//|$codes
a bound, words of codes|$fp8|$turned|s/ .. d < of.depth)/)/|$codes
zeros behind turned codes|$fp8|$turned|s/side + s. : uint8_t.0./side + s] : uint8_t{127}/|$codes
zeros behind turned words|$fp8|$turned|s/ square = {};/ square = {{~0u, ~0u, ~0u, ~0u}};/|$codes
zeros behind codes|$fp8|$turned|s/depth + d. : uint8_t.0./depth + d] : uint8_t{99}/|$codes
an address's alignment, codes|$fp8|$turned|s/ % fp8_alignment == 0;/ % 1 == 0;/|$codes
a scale|$lt8|$by_codes|s/b.inverse_scale, a.inverse_scale/b.inverse_scale/|$codes
a bias's dtype|$lt8|$by_codes|s/bias.dtype != y.dtype/false/|$codes
the end of a turned copy|$turn|elementwise.host.o|s/ .. from < left_from)/)/|$orders
a barrier, a turned copy|$turn|elementwise.host.o|s/^  __syncthreads();//|$orders
zeros at an edge|$patch.cpp|patch_convolution.cpp.o|s/if (!covers/if (false \&\& !covers/|$whole
a bias|$by_cudnn.cpp|library_convolution.cpp.o|s/bias.data ? 1 : 0/0/|$drawn
a copy, the host reads|runtime/memory.cpp|runtime_memory.cpp.o|$host_reads|tensor_test|GPU: draws*
a fragment's order|$parts|$forward|s/i % 2 \* 2 + half\]/half * 2 + i % 2]/|$heads
the mask of a tail|${tiles}_scores.cuh|$forward|s/key >= call.keys .. //|$heads
a wait for copies|$parts|$forward|0,/ ptx::cp_async_wait_all();/s///|$heads
a barrier behind copies|$parts|$backward|0,/ __syncthreads();/s///|$heads
the end of a head's tokens|$tokens|$of_att|s/token < x.tokens ? /true ? /|$in_parts
a copy's batch item|$tokens|$of_att|s/x.data + batch \* x.strides.0. +/x.data +/|$in_parts
the end of a row of scores|$by_rows|$of_att|s/left > 0 ? static_cast<int>(left) : 0/quad/|$in_parts
random numbers of the next block|$by_rows|$of_att|s/first % 4 != 0/false/|$in_parts
sums that are there|attention/$back.cu|$back.host.o|s/_sums ? 0 : 1/_sums ? 0 : 0/|$in_parts
an address's alignment, slots|element_group.cuh|$steps|s/size \&\& Whole::fits(p)/size/|$stepped
a bound, slots|element_group.cuh|$steps|s/if (i < group.count) p\[i\]/p[i]/|$stepped
a bound, random numbers|element_group.cuh|random.host.o|s/if (i < group.count) p\[i\]/p[i]/|$drops
the element of a noise|$walk|$steps|s/slot.begin + group.first + i/group.first + i/|$rounded
a head|$run|$of_run|s/{head_ + k/{k/|$begins
a tail|$run|$of_run|s/k : k + packs_ . size/k : k/|$begins
an address's alignment, sums|element_group.cuh|$of_run|s/size \&\& Whole::fits(p)/size/|$norms
a tail, codes|$run|fp8.host.o|s/left < size ? static_cast<int>(left) : size/size/|$codes8
a tail, dense sums|reduce/reduce.cu|reduce.host.o|s/left < quad ? .* : quad/quad/|$folds
a tail, added slices|index/index_add.cu|index_add.host.o|s/left < size ? .* : size/size/|$adds
the mode of a capture|$graph|runtime_graph.cpp.o|s/ModeThreadLocal/ModeGlobal/|$replays
the mode of a call|$graph|runtime_graph.cpp.o|s/ModeRelaxed/ModeThreadLocal/|$replays
kernels are loaded|$graph|runtime_graph.cpp.o|/ load_kernels();/d|$replays
a graph's scratch|$scratch|/graph = graph_in_prog/d|$replays
its old scratch|$scratch|s/ == Use::recorded) kept.*/ != use_) {}/|$replays
a barrier, rows are read|$parts|$backward|/^      __syncthreads();/d|$heads
"

run() {  # MODULE TEST CASES, with all draws of the cases
  TEST_SHARES=all \
  BOOSTER_CUDA_MODULE=$1 BOOSTER_CUDA_POISON=1 CUDA_ON_HOST_MEMORY=512 OMP_NUM_THREADS=2 \
    timeout 300 "$build/tests/$2" "-tc=$3" < /dev/null > "$work/said" 2>&1
}
# Compiles the changed source, or header, and links the module, with the build's own commands.
build_with() {  # SOURCE OBJECT: writes $work/module.so
  local object compile link
  compile=$(grep -E -- "-o \S*[/_]$2( |$)" "$work/commands" | head -n 1)
  object=$(grep -oE -- '-o \S+' <<< "$compile" | cut -c 4-)
  link=$(tail -n 1 "$work/commands")
  compile=${compile//..\/kernels\/cuda\/$1/$work/changed/kernels/cuda/$1}
  compile=${compile/ -I/ -I$work/changed -I}
  compile=${compile//$object/$work/changed.o}
  compile="${compile//${object%.o}.d/$work/changed.d} -Wno-error"  # the rest may be unused
  # Must be first: otherwise the linker takes another object's copy of a header's functions.
  link=${link//-o $module /-o $work/module.so $work/changed.o }
  link=${link// $object / }
  (cd "$build" && eval "$compile" && eval "$link") > "$work/said" 2>&1 || cat "$work/said"
  [[ -e $work/module.so ]]
}

shares=${TEST_SHARES:-0}
is_drawn() { [[ $shares == all || ,$shares, == *,$(($1 % 11)),* ]]; }

failed=0 number=-1
declare -A passed=()  # tests and cases, with the source as it is
while IFS='|' read -r what source object edit test cases; do
  [[ -n $what ]] || continue
  number=$((number + 1))
  is_drawn "$number" || continue
  changed=$work/changed/kernels/cuda/$source
  rm -rf "$work/changed"
  mkdir -p "${changed%/*}"
  sed "$edit" "$root/kernels/cuda/$source" > "$changed"
  ! cmp -s "$changed" "$root/kernels/cuda/$source" || {
    echo "$what: $source has not got it any more" && failed=1 && continue
  }
  rm -f "$work/module.so"
  build_with "$source" "$object"
  [[ -n ${passed[$test $cases]:-} ]] || run "$build/$module" "$test" "$cases" || {
    echo "$test fails as it is" && cat "$work/said" && exit 1
  }
  passed[$test $cases]=yes
  if run "$work/module.so" "$test" "$cases"; then
    echo "$what is missing in $source: $test does not see it" && failed=1
  else
    echo "$what is missing in $source: seen by $test"
  fi
done <<< "$mutations"
exit $failed
