// Memory use: live and peak bytes by tag, activations by the kind of module that made them.
// Thread-safe.
#pragma once

#include "core/tensor/memory/allocator.h"

#include <string>
#include <vector>

namespace booster {

struct MemoryUse {
  std::string tag;  // "parameters", "activations of VitMlp"
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;  // of this tag alone, since reset_peak_bytes()
};

// Returns the tags that hold or have held memory, largest peak first. "workspace" includes the
// kernels' scratch.
std::vector<MemoryUse> memory_use();
// Returns the same as a table, with the sums and what the allocator has cached.
std::string memory_report();

// For the allocator, which calls it while locked: returns the table, and the three changes that
// would save most.
std::string out_of_memory_report(const AllocatorStats& stats, const TaggedBytes& by_tag);

}  // namespace booster
