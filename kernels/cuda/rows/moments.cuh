// Mean and sum of squared deviations of many numbers in one pass over memory: each thread's numbers
// by groups, which are then merged (Chan, Golub and LeVeque, 1983). Nothing cancels.
#pragma once

#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;

  // Adds the elements that a share has; the others of `value` are 0.
  template <class Share>
  __device__ void add(const C* value, const Share& share) {
    if (share.mask == 0) return;
    const C n = C(__popc(share.mask));
    C sum = 0;
#pragma unroll
    for (int e = 0; e < Share::size; ++e) sum += value[e];
    Moments group = {n, sum / n, C(0)};
#pragma unroll
    for (int e = 0; e < Share::size; ++e) {
      const C deviation = value[e] - group.mean;
      if (share.has(e)) group.squares += deviation * deviation;
    }
    merge(group);
  }
  // `group` is not empty.
  __device__ void merge(const Moments& group) {
    const C all = count + group.count, part = group.count / all;
    const C difference = group.mean - mean;
    mean += difference * part;
    squares += group.squares + difference * difference * count * part;
    count = all;
  }
  // Of the n numbers that a team's threads have together; all of them must call it.
  template <class Team>
  __device__ Moments of_team(int64_t n) const {
    const C all = team_sum<Team>(mean * count) / C(n);
    const C difference = mean - all;
    return {C(n), all,
            team_sum<Team>(count > C(0) ? squares + difference * difference * count : C(0))};
  }
  // 1 / sqrt(variance + eps)
  __device__ C rstd(double eps) const { return C(1) / sqrt_(squares / count + C(eps)); }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
