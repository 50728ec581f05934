// Splits a tensor's elements into one range per rank.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

inline ElementRange range_of(const Tensor& whole, int rank, const Group& group) {
  return {whole.numel() * rank / group.size(), whole.numel() * (rank + 1) / group.size()};
}

// Returns a flat view of a rank's range.
inline Tensor range_window(const Tensor& whole, int rank, const Group& group) {
  const ElementRange range = range_of(whole, rank, group);
  return untracked::narrow(untracked::reshape(whole.detach(), {-1}), 0, range.begin, range.size());
}
inline Tensor own_window(const Tensor& whole, const Group& group) {
  return range_window(whole, group.rank(), group);
}

// Broadcasts each rank's range to all.
inline void gather_ranges(const Tensor& whole, const Group& group) {
  for (int rank = 0; rank < group.size(); ++rank)
    group.broadcast(range_window(whole, rank, group), rank);
}

}  // namespace booster::toys
