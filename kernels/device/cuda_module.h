// Loads the CUDA module once, at its first use. Thread-safe.
#pragma once

#include "kernels/device/module_table.h"

#include <string>

namespace booster::kernels {

// Returns the module, or null if there is none. BOOSTER_CUDA_MODULE names a file to load instead of
// the installed libbooster_cuda.so.
const CudaModule* cuda_module();
// The same, but throws the reason if there is no module.
const CudaModule& cuda_module_for(Device device);
// Sets the function that returns cached memory to GPUs, which is called when a GPU has no more. May
// be set before there is a module.
void on_shortage_of_device_memory(void (*release)());
// Returns why cuda_module() is null; empty if it is not.
const std::string& why_no_cuda_module();

}  // namespace booster::kernels
