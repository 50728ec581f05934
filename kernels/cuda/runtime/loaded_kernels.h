// The driver loads a kernel when it first runs, and may then wait for all running GPU work. During
// an operation of NCCL, which waits for other ranks, that wait can be endless. So all kernels are
// loaded before ranks connect.
#pragma once

namespace booster::kernels::cuda {

// Registers a kernel, before main. Returns true.
bool note_kernel(const void* kernel);
// Loads all of them for the device in use. Later calls have nothing to do.
void load_kernels();

}  // namespace booster::kernels::cuda
