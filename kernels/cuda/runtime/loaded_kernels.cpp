#include "kernels/cuda/runtime/loaded_kernels.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"

#include <mutex>
#include <set>
#include <vector>

namespace booster::kernels::cuda {
namespace {

std::vector<const void*>& kernels() {
  static auto* all = new std::vector<const void*>;
  return *all;
}

}  // namespace

bool note_kernel(const void* kernel) {
  kernels().push_back(kernel);
  return true;
}

void load_kernels() {
  static std::mutex mutex;
  static std::set<int> devices;
  std::lock_guard lock(mutex);
  if (devices.contains(current_device())) return;
  for (const void* kernel : kernels()) {
    cudaFuncAttributes attributes = {};
    CUDA_CALL(cudaFuncGetAttributes(&attributes, kernel));
  }
  devices.insert(current_device());
}

}  // namespace booster::kernels::cuda
