// Caching allocator: freed blocks go to free lists by size class and are reused. A training step in
// steady state thus makes no system allocation. One allocator for all devices; thread-safe.
#pragma once

#include "core/tensor/memory/memory_report.h"
#include "kernels/arguments/view.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace booster {

struct TagBytes {
  int64_t live = 0;
  int64_t peak = 0;  // of this tag alone, since reset_peak_bytes()
};
using TaggedBytes = std::array<TagBytes, memory_tags>;

// Returns a block of at least `bytes`, 64-byte aligned. Throws an error of kind failed if the
// system has no more memory, even after the cache was returned. The error states the sizes, the
// uses of memory and remedies.
void* allocate(Device device, size_t bytes, MemoryTag tag = MemoryTag::other);
// Frees a block; `bytes` and `tag` as given to allocate (or to retag).
void release(Device device, void* data, size_t bytes, MemoryTag tag = MemoryTag::other);
// Counts a live block of `bytes` under another tag from now on.
void retag(Device device, size_t bytes, MemoryTag from, MemoryTag to);

TaggedBytes tagged_bytes();
// Returns the bytes in use on one device under this tag.
int64_t live_bytes(Device device, MemoryTag tag);

// Returns the table of memory_report(), and the three changes that would save most. For an error of
// the allocator, which calls it while locked.
std::string out_of_memory_report(const AllocatorStats& stats, const TaggedBytes& by_tag);

// Blocks of one device for work that is recorded and replayed (captured_work.h). Only the recording
// reuses a freed block, since a replay writes to all of them.
class PrivateBlocks {
 public:
  explicit PrivateBlocks(Device device);
  // Makes free blocks common now, and the others when they are freed.
  ~PrivateBlocks();
  PrivateBlocks(const PrivateBlocks&) = delete;
  PrivateBlocks& operator=(const PrivateBlocks&) = delete;

  struct Lists;

  // Makes the calling thread's allocations on the device come from these blocks while it lives. New
  // blocks come from the system, never from the common cache.
  class Scope {
   public:
    explicit Scope(PrivateBlocks& blocks);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  // Makes allocations come from the common blocks while it lives, for values that must survive from
  // one replay to the next. Earlier recorded work may also use a private block.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Lists* before_;
  };

 private:
  std::unique_ptr<Lists> lists_;
};

}  // namespace booster
