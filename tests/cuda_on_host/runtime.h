// Access to the emulated device for the emulated NVIDIA libraries.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <chrono>
#include <functional>
#include <mutex>

namespace cuda_on_host {

// Returns the mutex that each call of the runtime holds; one call runs at a time.
std::recursive_mutex& runtime_mutex();
// Locks the runtime for a call from outside. With CUDA_ON_HOST_DELAYS=N one call in N is delayed by
// up to 20 ms, so that threads meet in other orders.
std::unique_lock<std::recursive_mutex> take_turn();
int device_of_thread();
// NCCL reports changes in the number of communicators.
void count_communicators(int more);

// Queues work in the stream, unless the device has a fault.
cudaError_t queue_work(cudaStream_t stream, std::function<void()> work);

// Called by a stream's work: later events, in any stream, have times that are later by this
// duration. Nothing waits for it.
void pretend_to_take(std::chrono::milliseconds time);

// Performs a copy between device and host, when its turn has come.
void copy_now(void* to, const void* from, size_t bytes);

}  // namespace cuda_on_host
