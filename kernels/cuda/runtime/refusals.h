// Errors of GPU kernels. In a file of their own, so that nvcc need not read the formatting library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace booster::kernels::cuda {

// The call mixes tensors of the CPU and of a GPU.
[[noreturn]] void refuse_mixed_devices();
// A kernel has no memory for its own needs.
[[noreturn]] void fail_without_memory(int device, size_t bytes);

}  // namespace booster::kernels::cuda
