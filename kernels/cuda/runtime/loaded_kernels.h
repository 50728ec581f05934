// The driver loads a kernel when it first runs, and may wait for all that the GPU runs then. Beside
// an operation of NCCL, which waits for other ranks, that can be for ever: so all kernels are
// loaded before ranks connect.
#pragma once

namespace booster::kernels::cuda {

// Each kernel says that it exists, before main. True.
bool note_kernel(const void* kernel);
// Loads all of them for the device in use. The second time nothing is left to do.
void load_kernels();

}  // namespace booster::kernels::cuda
