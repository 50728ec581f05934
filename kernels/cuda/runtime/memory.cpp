#include "kernels/cuda/runtime/memory.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "platform/error.h"

#include <atomic>

namespace booster::kernels::cuda {
namespace {

std::atomic<void (*)()> release_kept{nullptr};
std::atomic<const std::string*> copies_refused{nullptr};  // the first reason, kept forever

}  // namespace

void on_shortage(void (*release)()) { release_kept = release; }

void* allocate(int device, size_t bytes) {
  use(device);
  const UnrecordedCall unrecorded;
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
  // Freeing memory would wait for the device, which is forbidden while work is recorded.
  if (void (*release)() = release_kept; !data && release && !graph_in_progress()) {
    release();
    data = allocate(device, bytes);
  }
  return data;
}

// Frees memory. Never throws, because destructors call it even after the runtime has shut down.
void free(int, void* data) {
  const UnrecordedCall unrecorded;
  cudaFree(data);
}

void copy(void* to, const void* from, size_t bytes) {
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, current_stream()));
  CUDA_CALL(cudaStreamSynchronize(current_stream()));
  if (const std::string* reason = copies_refused)
    fail_run("cuda: the values on this GPU are lost because an operation was aborted: {}", *reason);
}

void refuse_copies(const std::string& reason) {
  const std::string* none = nullptr;
  const auto* kept = new std::string(reason);
  if (!copies_refused.compare_exchange_strong(none, kept)) delete kept;
}

}  // namespace booster::kernels::cuda
