// Memory of the host, as the kernels use it. Thread-safe.
#pragma once

#include <cstddef>

namespace booster::kernels {

// 64-byte aligned; nullptr if the system has no more.
void* allocate_host(size_t bytes);
void free_host(void* data);
// The same for a kernel's scratch; error if the system has no more.
void* allocate_scratch(size_t bytes);

}  // namespace booster::kernels
