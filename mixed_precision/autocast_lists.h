// torch's autocast op lists as data for the op policy (PyTorch 2.15; CPU and CUDA differ).
#pragma once

#include "core/autograd/op_policy.h"

namespace booster {

// The policy of a torch autocast region on a device type with a lower dtype (f16 or bf16).
OpPolicy torch_autocast_policy(DeviceType device, DType lower);

}  // namespace booster
