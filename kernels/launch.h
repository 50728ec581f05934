// How a kernel walks its work: an OpenMP loop on the CPU, a grid-stride kernel under nvcc.
//
// Work is cut into blocks whose size does not depend on the number of threads, so every result is
// the same bits with 1 thread or with many. Compiled per variant: all code lies in its namespace.
#pragma once

#include "kernels/view.h"

#ifdef __CUDACC__
#define KERNEL_FN __host__ __device__ __forceinline__
#else
#include <omp.h>
#define KERNEL_FN inline __attribute__((always_inline))
#endif

namespace booster::kernels::BOOSTER_VARIANT {

#ifndef __CUDACC__

// Calls body(block) for block in [0, blocks), in parallel when there is more than one.
template <class Body>
void for_each_block(int64_t blocks, Body&& body) {
  if (blocks <= 1 || omp_get_max_threads() == 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < blocks; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < blocks; ++i) body(i);
}

// Calls body(begin, end) for consecutive ranges of `grain` items of [0, n).
template <class Body>
void for_each_range(int64_t n, int64_t grain, Body&& body) {
  for_each_block((n + grain - 1) / grain, [&](int64_t block) {
    const int64_t begin = block * grain;
    body(begin, begin + grain < n ? begin + grain : n);
  });
}

// Items per range so that one range touches about 32 KB of 4-byte numbers.
constexpr int64_t grain_for(int64_t elements_per_item) {
  const int64_t items = 8192 / (elements_per_item > 0 ? elements_per_item : 1);
  return items > 0 ? items : 1;
}

#endif

}  // namespace booster::kernels::BOOSTER_VARIANT
