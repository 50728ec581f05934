// Indices are checked before a kernel uses them, so that a bad index reads and writes nothing.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

KERNEL_FN bool outside(int64_t index, int64_t limit) {
  return static_cast<uint64_t>(index) >= static_cast<uint64_t>(limit);
}

#ifndef BOOSTER_ON_GPU

// Returns the first i in [0, n) with bad(i), or -1. The usual case without one vectorises.
template <class Bad>
int64_t first_where(int64_t n, Bad&& bad) {
  int64_t any = 0;
#pragma omp simd reduction(| : any)
  for (int64_t i = 0; i < n; ++i) any |= bad(i);
  if (!any) return -1;
  int64_t i = 0;
  while (!bad(i)) ++i;
  return i;
}

// Returns the position of the first index outside [0, limit) among n, or -1.
inline int64_t first_bad_index(const int64_t* index, int64_t n, int64_t limit) {
  return first_where(n, [=](int64_t i) { return outside(index[i], limit); });
}

#endif

}  // namespace booster::kernels::BOOSTER_VARIANT
