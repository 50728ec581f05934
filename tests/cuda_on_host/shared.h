// The shared memory of the block that runs.
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

inline constexpr size_t most_shared_bytes = 48 << 10;  // of one block, declared as static

}  // namespace cuda_on_host
