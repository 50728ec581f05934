// Flags of overflow (one f32 on the device, not 0: found), which add up until gradients are
// forgotten. For one thread.
#pragma once

#include "core/optim/optimizer.h"

#include <utility>
#include <vector>

namespace booster {

// noted = noted or found. `found` is a flag that nobody else writes.
inline void note_overflow(Tensor& noted, const Tensor& found) {
  if (noted.defined()) noted.add_(found);
  else noted = found;
}

// What was found in the gradients of each optimizer before they were changed in memory (a clip by
// value makes infinities finite), for strategies that do not scale their loss.
class OverflowMemory {
 public:
  void note(const Optimizer& optimizer, const Tensor& found) {
    for (auto& [known, noted] : noted_)
      if (known == optimizer) return note_overflow(noted, found);
    noted_.emplace_back(optimizer, found);
  }
  // A copy of what was noted; undefined: nothing was looked at.
  Tensor of(const Optimizer& optimizer) const {
    for (const auto& [known, noted] : noted_)
      if (known == optimizer && noted.defined()) return noted.clone();
    return {};
  }
  void forget(const Optimizer& optimizer) {
    std::erase_if(noted_, [&](const auto& entry) { return entry.first == optimizer; });
  }

 private:
  std::vector<std::pair<Optimizer, Tensor>> noted_;
};

}  // namespace booster
