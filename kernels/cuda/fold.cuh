// Folds one value of each thread into one for all, first within a warp by shuffles, then between
// warps in shared memory. The order depends only on the threads' numbers.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr unsigned all_lanes = 0xFFFFFFFF;

// Folds over a warp. Every thread gets the result, and all 32 must call it.
template <class C, class Combine>
__device__ C fold_warp(C mine, Combine&& combine) {
  for (int step = warp_size / 2; step > 0; step /= 2)
    mine = combine(mine, __shfl_xor_sync(all_lanes, mine, step));
  return mine;
}

// Folds over a block. Every thread gets the result, and all must call it.
template <class C, class Combine>
__device__ C fold_lanes(C mine, Combine&& combine) {
  constexpr int warps = threads_per_block / warp_size;
  SHARED(C, partial, warps);
  mine = fold_warp(mine, combine);
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // another fold's result may still be read
  if (thread % warp_size == 0) partial[thread / warp_size] = mine;
  __syncthreads();
  C result = partial[0];
  for (int warp = 1; warp < warps; ++warp) result = combine(result, partial[warp]);
  return result;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
