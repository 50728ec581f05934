// Mean and sum of squared deviations of many numbers in one pass over memory: by groups of each
// thread's numbers, which are then merged (Chan, Golub and LeVeque, 1983). There is no
// cancellation, because numbers are measured from an origin that is one of them.
#pragma once

#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"
#include "kernels/walks/mean.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Loads a mean. Its tensor is f64 if it keeps both numbers.
template <class C>
__device__ Mean<C> load_mean(const Operand& means, int64_t i) {
  return Mean<C>(load_one<double>(means, i));
}

template <class C>
struct Moments {
  C origin;
  C count = 0, distance = 0, squares = 0;  // distance: of the mean from the origin

  // Converts the values of a share to distances from the origin, in place, because there are no
  // registers for a second copy.
  template <class Share>
  __device__ void measure(C* value, const Share&) const {
#pragma unroll
    for (int e = 0; e < Share::size; ++e) value[e] -= origin;
  }
  // Adds the elements of a share, which are distances from the origin.
  template <class Share>
  __device__ void add(const C* away, const Share& share) {
    if (share.mask == 0) return;
    const C n = C(__popc(share.mask));
    C sum = 0;
#pragma unroll
    for (int e = 0; e < Share::size; ++e) sum += share.has(e) ? away[e] : C(0);
    Moments group = {origin, n, sum / n, C(0)};
#pragma unroll
    for (int e = 0; e < Share::size; ++e) {
      const C deviation = away[e] - group.distance;
      if (share.has(e)) group.squares += deviation * deviation;
    }
    merge(group);
  }
  // Merges `group`, which is not empty and has the same origin.
  __device__ void merge(const Moments& group) {
    const C all = count + group.count, part = group.count / all;
    const C difference = group.distance - distance;
    distance += difference * part;
    squares += group.squares + difference * difference * count * part;
    count = all;
  }
  // Returns the moments of the n numbers of a team's threads; all of them must call it.
  template <class Team>
  __device__ Moments of_team(int64_t n) const {
    const C all = team_sum<Team>(distance * count) / C(n);
    const C difference = distance - all;
    return {origin, C(n), all,
            team_sum<Team>(count > C(0) ? squares + difference * difference * count : C(0))};
  }
  __device__ Mean<C> mean() const { return Mean<C>::from(origin, double(distance)); }
  // 1 / sqrt(variance + eps)
  __device__ C rstd(double eps) const { return C(1) / sqrt_(squares / count + C(eps)); }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
