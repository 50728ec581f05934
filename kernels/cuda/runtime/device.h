// The GPU and the stream that the calling thread uses.
#pragma once

#include "kernels/device/memory.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace booster::kernels::cuda {

inline constexpr int most_devices = 64;  // that a process can use

// Returns 0 without a driver.
int device_count();
CudaDevice describe_device(int device);
// Selects the device of this thread's next kernels and copies. Throws if there is no such device.
void use(int device);
// Returns the device that this thread uses: the one last passed to use(), initially 0.
int current_device();

// Returns the stream of the device in use for this thread's kernels and copies. All threads share
// it, so that their calls run in the order in which they were made. It does not wait for the legacy
// default stream, which captures must not use.
cudaStream_t current_stream();
// Returns the same for calls that are never recorded (runtime/graph.h): marks in execution order.
cudaStream_t running_stream();
// Makes the calling thread use another stream while it lives.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;

 private:
  cudaStream_t before_;
};
// Runs `body`; its work goes to this thread's own stream on that device.
void run_beside(int device, const std::function<void()>& body);
// Wait for all work of the device's stream, or of all its streams, including other libraries'.
void synchronize(int device);
void synchronize_all(int device);

// Waits for every kernel if BOOSTER_CUDA_DEBUG=1, so that the call that caused a fault reports it.
void wait_if_debugging();

}  // namespace booster::kernels::cuda
