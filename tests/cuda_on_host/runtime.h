// What libraries that play NVIDIA's do on the device.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <functional>

namespace cuda_on_host {

// Puts work into the stream, unless the device has a fault.
cudaError_t queue_work(cudaStream_t stream, std::function<void()> work);

}  // namespace cuda_on_host
