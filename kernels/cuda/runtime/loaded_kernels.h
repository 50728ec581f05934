// The driver loads a kernel when it first runs, and may then wait for all running GPU work. During
// an NCCL operation, which waits for other ranks, that wait can be endless. All kernels are
// therefore loaded before ranks connect.
#pragma once

namespace booster::kernels::cuda {

// Registers a kernel, before main. Returns true.
bool note_kernel(const void* kernel);
// Loads all of them for the device in use. Later calls do nothing.
void load_kernels();

}  // namespace booster::kernels::cuda
