#include "kernels/cuda/runtime/staging.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/events.h"

#include <mutex>

namespace booster::kernels::cuda {
namespace {

// Returns the device's stream for copies, for all threads.
cudaStream_t copy_stream(int device) {
  static std::once_flag created[most_devices];
  static cudaStream_t streams[most_devices];  // never destroyed: the runtime may end first
  std::call_once(created[device], [=] {
    CUDA_CALL(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
  });
  return streams[device];
}

}  // namespace

// Allocates pinned memory. Selects the device first, because otherwise the runtime would open
// device 0.
void* allocate_pinned(int device, size_t bytes) {
  use(device);
  const UnrecordedCall unrecorded;
  void* data = nullptr;
  const cudaError_t status = cudaMallocHost(&data, bytes ? bytes : 1);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  require(status, "cudaMallocHost");
  return data;
}

void free_pinned(void* data) {
  const UnrecordedCall unrecorded;
  cudaFreeHost(data);
}

std::shared_ptr<Event> copy_beside(int device, void* to, const void* from, size_t bytes,
                                   Event* after) {
  refuse_in_recording("a copy in parallel with the kernels");
  use(device);
  const cudaStream_t stream = copy_stream(device);
  if (after) after->precede(stream);
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  const std::shared_ptr<Event> arrived = mark_stream(device, stream);
  arrived->precede(nullptr);
  return arrived;
}

}  // namespace booster::kernels::cuda
