// The shared memory of the block that runs, and the copies to it that go on beside its threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_host {

// Forgets what the block before had there.
void begin_shared_memory();
bool is_shared_memory(const void* address);
// Where an address lies among all shared memory, and whether all of `bytes` belong to one
// declaration.
struct SharedRange {
  size_t offset;
  bool inside;
};
SharedRange shared_range(const void* address, size_t bytes);

// The running thread begins a copy of `bytes` (0 or 16) and zeros up to 16: as late as it can be,
// it is done when the thread waits for its copies, and until then the place holds nothing.
void begin_copy(void* shared, const void* from, int bytes);
void finish_copies();

inline constexpr size_t most_shared_bytes = 48 << 10;  // of one block, declared as static

}  // namespace cuda_on_host
