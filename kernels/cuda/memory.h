// Memory of CUDA devices. The first six are what kernels/system/memory.h does for a CUDA device;
// the others are for arguments and partial results of one kernel call. Thread-safe.
#pragma once

#include "kernels/system/memory.h"

#include <cstddef>

namespace booster::kernels::cuda {

// nullptr if the device has no more; error if there is no such device.
void* allocate(int device, size_t bytes);
void free(int device, void* data);
// Between host and devices in any direction; returns when the bytes have arrived.
void copy(void* to, const void* from, size_t bytes);
void synchronize(int device);
// 0 without a driver.
int device_count();
CudaDevice describe_device(int device);

// In the order of the kernel calls, without waiting for them: freed memory is reused only by work
// queued later.
void* allocate_queued(size_t bytes);
void free_queued(void* data);
// The host's bytes may be changed once the call returns.
void upload_queued(void* to, const void* from, size_t bytes);

// Raises the error of a kernel that was given tensors of the CPU and of a GPU.
[[noreturn]] void refuse_mixed_devices();

}  // namespace booster::kernels::cuda
