// Finds the first position with some property, with the whole GPU.
#pragma once

#include "kernels/cuda/fold.cuh"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the first i in [begin, end) with holds(i), else `none`, which is larger. All threads of a
// block call it.
template <class Holds>
__device__ int64_t first_in_range(int64_t begin, int64_t end, int64_t none, Holds&& holds) {
  int64_t first = none;
  for_each_lane(end - begin, [&](int64_t i) {
    if (begin + i < first && holds(begin + i)) first = begin + i;
  });
  return fold_lanes(first, [](int64_t a, int64_t b) { return a < b ? a : b; });
}

// Sets *result = the first i in [0, n) with holds(i), or -1.
template <class Holds>
void find_first(int64_t* result, int64_t n, Holds holds) {
  constexpr int64_t per_block = 1 << 14;
  const int64_t blocks = n > 0 ? (n + per_block - 1) / per_block : 1;
  const Workspace<int64_t> found(blocks);
  int64_t* first = found.data();
  for_each_block(blocks, [=] ON_DEVICE(int64_t block) {
    const int64_t begin = block * per_block, end = begin + per_block < n ? begin + per_block : n;
    const int64_t mine = first_in_range(begin, end, n, holds);
    if (first_lane()) first[block] = mine;
  });
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    const int64_t at =
        first_in_range(0, blocks, blocks, [=](int64_t block) { return first[block] < n; });
    if (first_lane()) *result = at < blocks ? first[at] : -1;
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
