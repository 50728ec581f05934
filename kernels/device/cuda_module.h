// Loads the CUDA module once, at its first use. Thread-safe.
#pragma once

#include "kernels/device/module_table.h"

#include <string>

namespace booster::kernels {

// BOOSTER_CUDA_MODULE names another file than the installed libbooster_cuda.so. Null if there is
// none.
const CudaModule* cuda_module();
// The same; error that says why there is no such device if there is no module.
const CudaModule& cuda_module_for(Device device);
// What gives back to GPUs the memory that a cache keeps: called when one has no more. May be said
// before there is a module.
void on_shortage_of_device_memory(void (*release)());
// Why cuda_module() is null; empty if it is not.
const std::string& why_no_cuda_module();

}  // namespace booster::kernels
