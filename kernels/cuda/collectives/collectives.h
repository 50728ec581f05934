// The CUDA module's NCCL functions; null in a module built without NCCL's header.
#pragma once

#include "kernels/device/communicator.h"

namespace booster::kernels::cuda {

[[gnu::weak]] extern const Collectives collectives;

}  // namespace booster::kernels::cuda
