// Errors of GPU kernels. In a separate file, so that nvcc need not read the formatting library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace booster::kernels::cuda {

// Throws for a call that mixes tensors of the CPU and of a GPU.
[[noreturn]] void refuse_mixed_devices();
// Throws because a kernel has no memory for partial results.
[[noreturn]] void fail_without_memory(int device, size_t bytes);

}  // namespace booster::kernels::cuda
