// Caching allocator: blocks go back to free lists by size class and are handed out again, so that a
// steady training step makes no system allocation. One for all devices; thread-safe.
#pragma once

#include "core/tensor/memory_tag.h"
#include "kernels/view.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace booster {

struct AllocatorStats {
  int64_t live_bytes = 0;          // handed out now
  int64_t peak_bytes = 0;          // most that was handed out at once since reset_peak_bytes()
  int64_t reserved_bytes = 0;      // taken from the system: live plus cached
  int64_t system_allocations = 0;  // times that the system was asked, since the start
};

struct TagBytes {
  int64_t live = 0;
  int64_t peak = 0;  // of this tag alone, since reset_peak_bytes()
};
using TaggedBytes = std::array<TagBytes, memory_tags>;

// A block of at least `bytes`, 64-byte aligned. Error of kind failed, with the sizes, what holds
// the memory and what to change, when the system has no more even after the cache is given back.
void* allocate(Device device, size_t bytes, MemoryTag tag = MemoryTag::other);
// `bytes` and `tag` as given to allocate (or to retag).
void release(Device device, void* data, size_t bytes, MemoryTag tag = MemoryTag::other);
// A live block of `bytes` counts under another tag from now on.
void retag(size_t bytes, MemoryTag from, MemoryTag to);

AllocatorStats allocator_stats();
TaggedBytes tagged_bytes();
void reset_peak_bytes();
// Gives cached blocks back to the system.
void empty_cache();

}  // namespace booster
