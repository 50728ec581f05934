// The largest element of a row and the sum of exponentials relative to it, in one pass over memory.
// A larger element scales the sum so far down (Milakov and Gimelshein, 2018).
#pragma once

#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {

// `sum` is the sum of exp(x - base) over the row, where base is the largest element, or 0 if that
// is -inf. A nan is never the largest element, but enters the sum.
template <class C>
struct Exponentials {
  C largest, sum;
  __device__ C base() const { return largest == C(-__builtin_inf()) ? C(0) : largest; }
};

// Leaves the row's last chunk in `value`, with -inf outside of the row. With `keep_exponentials` it
// leaves exp(x - base), and 0 outside.
template <class Team, class C>
__device__ Exponentials<C> exponentials_of(C (&value)[held<C>], const Operand& x,
                                           const Row<Team, C>& row, bool keep_exponentials) {
  Exponentials<C> all = {C(-__builtin_inf()), C(0)};
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_share(value, x, row.begin, row.share(chunk), C(-__builtin_inf()));
    const C before = all.largest;
#pragma unroll
    for (int e = 0; e < held<C>; ++e) all.largest = value[e] > all.largest ? value[e] : all.largest;
    all.largest = team_max<Team>(all.largest);
    const C base = all.base();
    all.sum *= exp_(before - base);
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      const C exponential = exp_(value[e] - base);
      all.sum += exponential;
      if (keep_exponentials) value[e] = exponential;
    }
  }
  all.sum = team_sum<Team>(all.sum);
  return all;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
