// Checks every memory access of a kernel. The compiler inserts the calls for -fsanitize=thread
// (instrumentation.cpp). The checks cover bounds, unwritten memory, the host's memory, alignment,
// and unordered accesses of two threads to one place.
#pragma once

#include "tests/cuda_on_host/device/block.h"

#include <cstddef>

namespace cuda_on_host {

enum class Access { read, write, relaxed };  // relaxed: atomic or volatile, which may race

// `aligned`: the address must be a multiple of the size. Most accesses are to a thread's own
// variables, which the compiler handles correctly by itself.
void watch_beyond_stack(const void* address, size_t bytes, Access access, bool aligned);
inline void watch(const void* address, size_t bytes, Access access, bool aligned) {
  if (!running_stack.holds(address)) watch_beyond_stack(address, bytes, access, aligned);
}

// Marks newly allocated device bytes as unwritten.
void forget_accesses(size_t offset, size_t bytes);
// Does the same for the block's memory. `and_by_whom` also clears the last accessors, since
// different blocks use the same addresses for their own memory.
void forget_shared_accesses(size_t offset, size_t bytes, bool and_by_whom);
// Marks bytes written by something other than a kernel.
void mark_written(const void* address, size_t bytes);
bool is_written(const void* address, size_t bytes);

}  // namespace cuda_on_host
