// Overflow flags (one f32 on the device, not 0: found), accumulated until gradients are dropped.
// For one thread.
#pragma once

#include "mixed_precision/interface/precision.h"

#include <utility>
#include <vector>

namespace booster {

// Sets noted = noted or found. `noted` may become `found` itself, so nothing else may write
// `found`.
inline void note_overflow(Tensor& noted, const Tensor& found) {
  if (noted.defined()) noted.add_(found);
  else noted = found;
}

// Overflows found in each optimizer's gradients, for strategies that do not scale the loss: the
// gradients in memory are true.
class OverflowMemory {
 public:
  // If `looks` is false it checks nothing, and no step is skipped.
  explicit OverflowMemory(bool looks) : looks_(looks) {}

  void note(const Optimizer& optimizer, const Tensor& found);
  // Notes overflows before gradients change in memory: a clip by value makes infinities finite.
  void look(const Optimizer& optimizer);
  // Returns the local verdict: overflows noted earlier, or present now.
  Verdict inspect(const Optimizer& optimizer) const;
  void forget(const Optimizer& optimizer);

 private:
  bool looks_;
  std::vector<std::pair<Optimizer, Tensor>> noted_;
};

}  // namespace booster
