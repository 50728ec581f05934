// Host memory for kernels. Thread-safe.
#pragma once

#include <cstddef>

namespace booster::kernels {

// Returns 64-byte aligned memory; nullptr if the system has no more.
void* allocate_host(size_t bytes);
void free_host(void* data);
// Does the same for a kernel's scratch; throws if the system has no more.
void* allocate_scratch(size_t bytes);

}  // namespace booster::kernels
