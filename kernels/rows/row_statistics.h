// Mean and reciprocal standard deviation of a run of numbers, for the normalisations.
#pragma once

#include "kernels/numbers/math.h"
#include "kernels/walks/mean.h"
#include "kernels/walks/row_sums.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct Statistics {
  Mean<C> mean;
  C rstd;      // 1 / sqrt(variance + eps)
  C variance;  // of those that are measured; divided by n

  Statistics() = default;
  Statistics(const Mean<C>& mean_, C variance_, double eps)
      : mean(mean_), rstd(C(1) / sqrt_(variance_ + C(eps))), variance(variance_) {}

  bool is_far() const { return is_far_from_zero(mean.center, variance); }

  static Statistics load(const View& means, const View& rstds, int64_t row) {
    Statistics statistics;
    statistics.mean = load_mean<C>(means, row);
    statistics.rstd = load_scalar<C>(rstds, row);
    return statistics;
  }
  void store(const View& means, const View& rstds, int64_t row) const {
    store_scalar(means, row, mean.whole());
    store_scalar(rstds, row, rstd);
  }
};

// Sum of x - origin: small terms where all numbers are near to each other, and exactly 0 where they
// are equal.
template <class C>
C sum_of_distances(const C* x, int64_t n, C origin) {
  return sum_of<C>(n, [=](int64_t i) { return x[i] - origin; });
}

// Sum of (x - center)^2: a variance computed from deviations does not cancel.
template <class C>
C sum_of_squared_deviations(const C* x, int64_t n, C center) {
  return sum_of<C>(n, [=](int64_t i) {
    const C deviation = x[i] - center;
    return deviation * deviation;
  });
}

// Of numbers that need not be near to zero.
template <class C>
[[gnu::noinline]] Statistics<C> statistics_far_from_zero(const C* x, int64_t n, double eps) {
  const C origin = n > 0 ? x[0] : C(0);
  const auto mean = Mean<C>::from(origin, double(sum_of_distances(x, n, origin) / C(n)));
  const C squares = sum_of_squared_deviations(x, n, mean.center) / C(n);
  return {mean, squares - mean.rest * mean.rest, eps};
}

// Statistics of values near zero. Whether they were near shows in the variance (is_far_from_zero).
template <class C>
Statistics<C> statistics_near_zero(const C* x, int64_t n, double eps) {
  const C mean = row_sum(x, n) / C(n);
  return {Mean<C>(mean, C(0)), sum_of_squared_deviations(x, n, mean) / C(n), eps};
}

template <class C>
Statistics<C> statistics_of(const C* x, int64_t n, double eps) {
  const Statistics<C> near = statistics_near_zero(x, n, eps);
  return near.is_far() ? statistics_far_from_zero(x, n, eps) : near;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
