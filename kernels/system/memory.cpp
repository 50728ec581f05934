#include "kernels/system/memory.h"

#include "kernels/system/error.h"
#ifdef BOOSTER_CUDA
#include "kernels/cuda/memory.h"
#endif

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace booster::kernels {

namespace {
constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t{2} << 20;

bool is_cpu(Device device) { return device.type == DeviceType::cpu; }
#ifndef BOOSTER_CUDA
[[noreturn]] void no_cuda(Device device) {
  fail("device: there is no usable CUDA device (this build has no CUDA); got cuda:{}, want cpu",
       static_cast<int>(device.index));
}
#endif
}  // namespace

void* device_allocate(Device device, size_t bytes) {
  if (!is_cpu(device)) {
#ifdef BOOSTER_CUDA
    return cuda::allocate(device.index, bytes);
#else
    no_cuda(device);
#endif
  }
  const size_t aligned_to = bytes >= huge_page ? huge_page : alignment;
  const size_t rounded = (bytes + aligned_to - 1) / aligned_to * aligned_to;
  void* data = std::aligned_alloc(aligned_to, rounded ? rounded : aligned_to);
  // Large blocks are kept for the whole run, so use huge pages to take page faults in 2 MB steps.
  if (data && aligned_to == huge_page) madvise(data, rounded, MADV_HUGEPAGE);
  return data;
}

void device_free(Device device, void* data) {
  if (is_cpu(device)) return std::free(data);
#ifdef BOOSTER_CUDA
  cuda::free(device.index, data);
#endif
}

void device_copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) return;
  if (is_cpu(to_device) && is_cpu(from_device)) {
    std::memcpy(to, from, bytes);
    return;
  }
#ifdef BOOSTER_CUDA
  cuda::copy(to, from, bytes);
#else
  no_cuda(is_cpu(to_device) ? from_device : to_device);
#endif
}

void device_synchronize(Device device) {
  if (is_cpu(device)) return;
#ifdef BOOSTER_CUDA
  cuda::synchronize(device.index);
#endif
}

int cuda_device_count() {
#ifdef BOOSTER_CUDA
  return cuda::device_count();
#else
  return 0;
#endif
}

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
#ifdef BOOSTER_CUDA
  for (int i = 0; i < cuda::device_count(); ++i) devices.push_back(cuda::describe_device(i));
#endif
  return devices;
}

}  // namespace booster::kernels
