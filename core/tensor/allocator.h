// Caching allocator: blocks go back to free lists by size class and are handed out again, so that a
// steady training step makes no system allocation. One for all devices; thread-safe.
#pragma once

#include "kernels/view.h"

#include <cstddef>
#include <cstdint>

namespace booster {

struct AllocatorStats {
  int64_t live_bytes = 0;          // handed out now
  int64_t peak_bytes = 0;          // most that was handed out at once since reset_peak_bytes()
  int64_t reserved_bytes = 0;      // taken from the system: live plus cached
  int64_t system_allocations = 0;  // times that the system was asked, since the start
};

// A block of at least `bytes`, 64-byte aligned. Error of kind failed, with the sizes, when the
// system has no more even after the cache is given back.
void* allocate(Device device, size_t bytes);
// `bytes` as given to allocate.
void release(Device device, void* data, size_t bytes);

AllocatorStats allocator_stats();
void reset_peak_bytes();
// Gives cached blocks back to the system.
void empty_cache();

}  // namespace booster
