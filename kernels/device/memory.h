// Raw memory of a device: the basis of the caching allocator (core/tensor/memory/allocator.h), and
// the only calls that reach the system allocator. Thread-safe.
#pragma once

#include "kernels/arguments/view.h"

#include <cstddef>
#include <string>
#include <vector>

namespace booster::kernels {

// Returns memory, 64-byte aligned on a CPU; nullptr if the system has no more.
void* device_allocate(Device device, size_t bytes);
void device_free(Device device, void* data);
// Copies between any two devices; returns when the bytes have arrived.
void device_copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
// Waits for all work queued on the device.
void device_synchronize(Device device);
// Returns the number of CUDA devices that this process can use; 0 without a driver.
int cuda_device_count();

struct CudaDevice {
  std::string name;          // "Tesla T4"
  int major = 0, minor = 0;  // compute capability
  size_t bytes = 0;          // of memory
};
// Returns these devices, by index; none without a driver or in a build without CUDA.
std::vector<CudaDevice> cuda_devices();

}  // namespace booster::kernels
