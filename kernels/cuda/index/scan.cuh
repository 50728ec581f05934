// Sums over the preceding threads.
#pragma once

#include "kernels/cuda/fold.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the sum of `mine` over the block's threads with a lower number. All must call it.
template <class T>
__device__ T sum_before(T mine) {
  constexpr int warps = threads_per_block / warp_size;
  SHARED(T, of_warp, warps);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_size;
  T through = mine;
  for (int step = 1; step < warp_size; step *= 2) {
    const T before = __shfl_up_sync(all_lanes, through, step);
    if (lane >= step) through += before;
  }
  __syncthreads();  // another call's sums may still be read
  if (lane == warp_size - 1) of_warp[thread / warp_size] = through;
  __syncthreads();
  for (int warp = 0; warp < thread / warp_size; ++warp) through += of_warp[warp];
  return through - mine;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
