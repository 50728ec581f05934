#include "kernels/cuda/runtime/memory.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"

#include <atomic>

namespace booster::kernels::cuda {
namespace {

std::atomic<void (*)()> release_kept{nullptr};

}  // namespace

void on_shortage(void (*release)()) { release_kept = release; }

void* allocate(int device, size_t bytes) {
  use(device);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes ? bytes : 1);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  require(status, "cudaMalloc");
  return data;
}

void* allocate_or_release(int device, size_t bytes) {
  void* data = allocate(device, bytes);
  if (void (*release)() = release_kept; !data && release) {
    release();
    data = allocate(device, bytes);
  }
  return data;
}

// Called by destructors, even after the runtime has shut down: never throws.
void free(int, void* data) { cudaFree(data); }

void copy(void* to, const void* from, size_t bytes) {
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, current_stream()));
  CUDA_CALL(cudaStreamSynchronize(current_stream()));
}

}  // namespace booster::kernels::cuda
