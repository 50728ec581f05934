// Events of CUDA streams.
#pragma once

#include "kernels/device/event.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace booster::kernels::cuda {

// Returns the event after all work that this device's stream has so far.
std::shared_ptr<Event> mark_stream(int device, cudaStream_t stream);

}  // namespace booster::kernels::cuda
