// Memory of CUDA devices. The first six are what kernels/system/memory.h does for a CUDA device;
// the others are for arguments and partial results of one kernel call. Thread-safe.
#pragma once

#include "kernels/system/memory.h"

#include <cstddef>

namespace booster::kernels::cuda {

// nullptr when the device has no more; error if there is no such device.
void* allocate(int device, size_t bytes);
void free(int device, void* data);
// Between any two places; returns when the bytes have arrived.
void copy(void* to, const void* from, size_t bytes);
void synchronize(int device);
// 0 without a driver.
int device_count();
CudaDevice describe_device(int device);

// In the order of the kernel calls, without waiting for them: memory given back is used again only
// by what is queued later.
void* allocate_queued(size_t bytes);
void free_queued(void* data);
// The host's bytes may change when the call returns.
void upload_queued(void* to, const void* from, size_t bytes);

// Raises the error of a kernel that was given tensors of the CPU and of a GPU.
[[noreturn]] void refuse_mixed_devices();

}  // namespace booster::kernels::cuda
