// Positions in the order of their keys, stable for equal keys. A radix sort moves only the
// positions, by four bits of the key at a time.
#pragma once

#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {

class SortedPositions {
 public:
  // Sorts keys (on the device) in [0, limit). Positions begin in the order `start` (null: 0, 1, 2,
  // ...), in which equal keys stay.
  SortedPositions(const int64_t* keys, int64_t n, int64_t limit, const int64_t* start = nullptr);
  const int64_t* data() const { return order_; }

 private:
  Workspace<int64_t> first_, second_;
  const int64_t* order_;
};

}  // namespace booster::kernels::BOOSTER_VARIANT
