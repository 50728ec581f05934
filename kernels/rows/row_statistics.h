// Mean and reciprocal standard deviation of a run of numbers, for the normalisations.
#pragma once

#include "kernels/numbers/math.h"
#include "kernels/walks/row_sums.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct Statistics {
  C mean, rstd;  // rstd = 1 / sqrt(variance + eps), variance divided by n
};

// Sum of (x - mean)^2: a variance computed from deviations does not cancel.
template <class C>
C sum_of_squared_deviations(const C* x, int64_t n, C mean) {
  return sum_of<C>(n, [=](int64_t i) {
    const C deviation = x[i] - mean;
    return deviation * deviation;
  });
}

template <class C>
Statistics<C> statistics_of(const C* x, int64_t n, double eps) {
  const C mean = row_sum(x, n) / C(n);
  const C variance = sum_of_squared_deviations(x, n, mean) / C(n);
  return {mean, C(1) / sqrt_(variance + C(eps))};
}

}  // namespace booster::kernels::BOOSTER_VARIANT
