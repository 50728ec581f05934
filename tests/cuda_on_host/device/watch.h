// Every access of a kernel to memory comes here, by the calls that the compiler inserts for
// -fsanitize=thread (instrumentation.cpp): bounds, memory that nobody wrote, the host's memory,
// alignment, and two threads at one place without an order between them.
#pragma once

#include "tests/cuda_on_host/device/block.h"

#include <cstddef>

namespace cuda_on_host {

enum class Access { read, write, relaxed };  // relaxed: atomic or volatile, which may race

// `aligned`: the address must be a multiple of the size. Most accesses are to a thread's own
// variables, of which the compiler keeps account by itself.
void watch_beyond_stack(const void* address, size_t bytes, Access access, bool aligned);
inline void watch(const void* address, size_t bytes, Access access, bool aligned) {
  if (!running_stack.holds(address)) watch_beyond_stack(address, bytes, access, aligned);
}

// Bytes of the device that were allocated anew: nobody has written them.
void forget_accesses(size_t offset, size_t bytes);
// The same of the block's memory; `and_by_whom`: it was no block's before, since blocks have the
// same addresses for memory of their own.
void forget_shared_accesses(size_t offset, size_t bytes, bool and_by_whom);
// They were written by something else than a kernel.
void mark_written(const void* address, size_t bytes);
bool is_written(const void* address, size_t bytes);

}  // namespace cuda_on_host
