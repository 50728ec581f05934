// A tensor's elements in as many ranges as a group has ranks.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

inline ElementRange range_of(const Tensor& whole, int rank, const Group& group) {
  return {whole.numel() * rank / group.size(), whole.numel() * (rank + 1) / group.size()};
}

// A flat window on a rank's range.
inline Tensor range_window(const Tensor& whole, int rank, const Group& group) {
  const ElementRange range = range_of(whole, rank, group);
  return untracked::narrow(untracked::reshape(whole.detach(), {-1}), 0, range.begin, range.size());
}
inline Tensor own_window(const Tensor& whole, const Group& group) {
  return range_window(whole, group.rank(), group);
}

// Each rank's range becomes everybody's.
inline void gather_ranges(const Tensor& whole, const Group& group) {
  for (int rank = 0; rank < group.size(); ++rank)
    group.broadcast(range_window(whole, rank, group), rank);
}

}  // namespace booster::toys
