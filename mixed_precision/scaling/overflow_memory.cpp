#include "mixed_precision/scaling/overflow_memory.h"

#include "mixed_precision/scaling/loss_scaler.h"

namespace booster {

void OverflowMemory::note(const Optimizer& optimizer, const Tensor& found) {
  for (auto& [known, noted] : noted_)
    if (known == optimizer) return note_overflow(noted, found);
  noted_.emplace_back(optimizer, found);
}

void OverflowMemory::look(const Optimizer& optimizer) {
  if (looks_) note(optimizer, find_non_finite(optimizer));
}

Verdict OverflowMemory::inspect(const Optimizer& optimizer) const {
  if (!looks_) return {};
  Tensor found = find_non_finite(optimizer);
  for (const auto& [known, noted] : noted_)
    if (known == optimizer) found.add_(noted);
  return {found, {}, {}};
}

void OverflowMemory::forget(const Optimizer& optimizer) {
  std::erase_if(noted_, [&](const auto& entry) { return entry.first == optimizer; });
}

}  // namespace booster
