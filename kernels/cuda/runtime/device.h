// Which GPU and which of its streams the calling thread works with.
#pragma once

#include "kernels/device/memory.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace booster::kernels::cuda {

inline constexpr int most_devices = 64;  // that a process can use

// 0 without a driver.
int device_count();
CudaDevice describe_device(int device);
// The next kernels and copies of this thread are for this device. Error if there is no such device.
void use(int device);
// The one that this thread uses: the last of use(), at first 0.
int current_device();

// The stream of the device in use to which this thread's kernels and copies go: one for all
// threads, so that their calls run in the order in which they were made. It does not wait for the
// legacy default stream, which no capture may touch.
cudaStream_t current_stream();
// The same for what is never recorded (runtime/graph.h): marks in the order of what runs.
cudaStream_t running_stream();
// While it lives, another stream takes its place for the calling thread.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;

 private:
  cudaStream_t before_;
};
// What `body` queues goes to a stream of this thread's own on that device.
void run_beside(int device, const std::function<void()>& body);
// Waits for all work that was given to the device's stream, or to all of its streams, whoever has
// made them.
void synchronize(int device);
void synchronize_all(int device);

// With BOOSTER_CUDA_DEBUG=1 every kernel is waited for, so that a fault is reported by the call
// that caused it.
void wait_if_debugging();

}  // namespace booster::kernels::cuda
