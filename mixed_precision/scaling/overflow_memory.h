// Flags of overflow (one f32 on the device, not 0: found), which add up until gradients are
// forgotten. For one thread.
#pragma once

#include "mixed_precision/interface/precision.h"

#include <utility>
#include <vector>

namespace booster {

// noted = noted or found. `found` is a flag that nobody else writes.
inline void note_overflow(Tensor& noted, const Tensor& found) {
  if (noted.defined()) noted.add_(found);
  else noted = found;
}

// What was found in the gradients of each optimizer, for strategies that do not scale their loss:
// their gradients in memory are the true ones.
class OverflowMemory {
 public:
  // Without `looks` nothing is looked for, and no step is skipped.
  explicit OverflowMemory(bool looks) : looks_(looks) {}

  void note(const Optimizer& optimizer, const Tensor& found);
  // Gradients are about to be changed in memory (a clip by value makes infinities finite): notes
  // what is there now.
  void look(const Optimizer& optimizer);
  // The local verdict: what was noted, or is there now.
  Verdict inspect(const Optimizer& optimizer) const;
  void forget(const Optimizer& optimizer);

 private:
  bool looks_;
  std::vector<std::pair<Optimizer, Tensor>> noted_;
};

}  // namespace booster
