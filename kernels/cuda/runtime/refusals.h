// What kernels on a GPU do not take. In a file of their own: nvcc need not read what formats them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace booster::kernels::cuda {

// Tensors of the CPU and of a GPU in one call.
[[noreturn]] void refuse_mixed_devices();
// A kernel that needs memory of its own.
[[noreturn]] void fail_without_memory(int device, size_t bytes);

}  // namespace booster::kernels::cuda
