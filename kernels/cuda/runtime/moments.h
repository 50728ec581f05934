// Moments of CUDA streams.
#pragma once

#include "kernels/cuda/runtime/moment.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace booster::kernels::cuda {

// What the stream of this device holds so far.
std::shared_ptr<Moment> mark_stream(int device, cudaStream_t stream);
// The same for the stream that kernels run on.
std::shared_ptr<Moment> mark(int device);

}  // namespace booster::kernels::cuda
