// Reductions along a run: sums and maxima with 64 running partial results (256 on a GPU, one per
// thread of the block). They keep every vector unit busy and limit the growth of rounding errors to
// n / 64. The order of additions depends only on n, never on the CPU variant or the number of
// threads.
#pragma once

#include "kernels/launch/launch.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/fold.cuh"
#endif

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int lanes = 64;

#ifdef BOOSTER_ON_GPU

template <class C, class Term, class Combine>
__device__ C reduce_run(int64_t n, C identity, Term&& term, Combine&& combine) {
  C mine = identity;
  for_each_lane(n, [&](int64_t i) { mine = combine(mine, term(i)); });
  return fold_lanes(mine, combine);
}

#else

// Folds 64 partial results in halves: 64 -> 32 -> ... -> 1.
template <class C, class Combine>
KERNEL_FN C fold_lanes(C* partial, Combine&& combine) {
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) partial[i] = combine(partial[i], partial[i + half]);
  return partial[0];
}

// Combines term(0) ... term(n - 1); returns `identity` if n is 0. `term` must have no branches and
// calls, so that the loop vectorises; it may write to memory (each i once).
template <class C, class Term, class Combine>
KERNEL_FN C reduce_run(int64_t n, C identity, Term&& term, Combine&& combine) {
  alignas(64) C partial[lanes];
  for (int j = 0; j < lanes; ++j) partial[j] = identity;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (int j = 0; j < lanes; ++j) partial[j] = combine(partial[j], term(i + j));
  }
  const int rest = static_cast<int>(n - i);
#pragma omp simd
  for (int j = 0; j < rest; ++j) partial[j] = combine(partial[j], term(i + j));
  return fold_lanes(partial, combine);
}

#endif

template <class C, class Term>
ON_DEVICE C sum_of(int64_t n, Term&& term) {
  return reduce_run<C>(n, C(0), term, [](C a, C b) { return a + b; });
}

template <class C>
ON_DEVICE C row_sum(const C* x, int64_t n) {
  return sum_of<C>(n, [=](int64_t i) { return x[i]; });
}

// Returns the largest element, or -inf if n is 0; ignores nan.
template <class C>
ON_DEVICE C row_max(const C* x, int64_t n) {
  return reduce_run<C>(
      n, C(-__builtin_inf()), [=](int64_t i) { return x[i]; },
      [](C a, C b) { return b > a ? b : a; });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
