// Passes of a block over a run of elements of one dtype. The CPU uses loops that vectorise, a GPU
// packs of 16 bytes for each thread.
#pragma once

#include "kernels/walks/row_sums.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/packed_run.cuh"
#endif

namespace booster::kernels::BOOSTER_VARIANT {

// Calls body(x[i]), which may change the element.
template <class T, class Body>
ON_DEVICE void change_run(T* x, int64_t n, Body&& body) {
#ifdef BOOSTER_ON_GPU
  PackedRun<T>::from_aligned(x, n).template for_each<true>([&](T* element, int count) {
    for (int i = 0; i < count; ++i) body(element[i]);
  });
#else
  for_each_lane(n, [=](int64_t i) { body(x[i]); });
#endif
}

// Returns the largest term(x[i]), an unsigned integer; 0 if n is 0. With `writes` a term may change
// its element.
template <class Bits, bool writes, class T, class Term>
ON_DEVICE Bits largest_of_run(T* x, int64_t n, Term&& term) {
  const auto larger = [](Bits a, Bits b) { return b > a ? b : a; };
#ifdef BOOSTER_ON_GPU
  Bits mine = 0;
  PackedRun<T>::from_aligned(x, n).template for_each<writes>([&](T* element, int count) {
    for (int i = 0; i < count; ++i) mine = larger(mine, term(element[i]));
  });
  return fold_lanes(mine, larger);
#else
  return reduce_run<Bits>(
      n, Bits(0), [=](int64_t i) { return term(x[i]); }, larger);
#endif
}

// to[i] = f(from[i]).
template <class To, class From, class F>
ON_DEVICE void map_run(To* to, const From* from, int64_t n, F&& f) {
#ifdef BOOSTER_ON_GPU
  map_groups(to, from, n, f);
#else
  for_each_lane(n, [=](int64_t i) { to[i] = f(from[i]); });
#endif
}

// The same; also returns the largest term(from[i]), an unsigned integer with term(0) = 0.
template <class Bits, class To, class From, class F, class Term>
ON_DEVICE Bits map_run_with_largest(To* to, const From* from, int64_t n, F&& f, Term&& term) {
  const auto larger = [](Bits a, Bits b) { return b > a ? b : a; };
#ifdef BOOSTER_ON_GPU
  Bits mine = 0;
  map_groups(to, from, n, [&](const From& element) {
    mine = larger(mine, term(element));
    return f(element);
  });
  return fold_lanes(mine, larger);
#else
  return reduce_run<Bits>(
      n, Bits(0),
      [=](int64_t i) {
        to[i] = f(from[i]);
        return term(from[i]);
      },
      larger);
#endif
}

// Combines term(x[0]) ... term(x[n - 1]), in an order that depends only on n; `identity` if n is 0.
template <class R, class T, class Term, class Combine>
ON_DEVICE R fold_run(const T* x, int64_t n, R identity, Term&& term, Combine&& combine) {
#ifdef BOOSTER_ON_GPU
  R mine = identity;
  PackedRun<T>::from_first(const_cast<T*>(x), n)
      .template for_each<false>([&](const T* element, int count) {
        for (int i = 0; i < count; ++i) mine = combine(mine, term(element[i]));
      });
  return fold_lanes(mine, combine);
#else
  return reduce_run<R>(
      n, identity, [=](int64_t i) { return term(x[i]); }, combine);
#endif
}
template <class T, class Term>
ON_DEVICE double sum_of_run(const T* x, int64_t n, Term&& term) {
  return fold_run<double>(x, n, 0.0, term, [](double a, double b) { return a + b; });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
