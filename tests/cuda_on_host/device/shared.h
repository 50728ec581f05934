// The shared memory of the running block, and the asynchronous copies into it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_host {

// Discards the contents that the previous block left.
void begin_shared_memory();
bool is_shared_memory(const void* address);
// The offset of an address in shared memory, and whether all of `bytes` belong to one declaration.
struct SharedRange {
  size_t offset;
  bool inside;
};
SharedRange shared_range(const void* address, size_t bytes);

// Begins a copy by the running thread of `bytes` (0 or 16), filled with zeros up to 16. The copy
// completes as late as possible, when the thread waits for its copies; until then the target is
// unwritten.
void begin_copy(void* shared, const void* from, int bytes);
void finish_copies();

inline constexpr size_t most_shared_bytes = 48 << 10;  // of one block, statically declared

}  // namespace cuda_on_host
