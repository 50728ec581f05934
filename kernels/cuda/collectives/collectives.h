// What the CUDA module offers of NCCL; a null address in one that was built without its header.
#pragma once

#include "kernels/device/communicator.h"

namespace booster::kernels::cuda {

[[gnu::weak]] extern const Collectives collectives;

}  // namespace booster::kernels::cuda
