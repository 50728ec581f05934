// What libraries that play NVIDIA's do on the device.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <chrono>
#include <functional>
#include <mutex>

namespace cuda_on_host {

// One call of the runtime at a time.
std::recursive_mutex& runtime_mutex();
// For a call that comes from outside. With CUDA_ON_HOST_DELAYS=N one in N comes up to 20 ms late,
// so that threads meet in other orders.
std::unique_lock<std::recursive_mutex> take_turn();
int device_of_thread();
// NCCL says how many communicators there are.
void count_communicators(int more);

// Puts work into the stream, unless the device has a fault.
cudaError_t queue_work(cudaStream_t stream, std::function<void()> work);

// For work of a stream: events that come after it, in any stream, are later by this time, which
// nobody waits for.
void pretend_to_take(std::chrono::milliseconds time);

// What a copy between the device and the host does when its turn has come.
void copy_now(void* to, const void* from, size_t bytes);

}  // namespace cuda_on_host
