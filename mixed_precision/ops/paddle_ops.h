// The names of PaddlePaddle 3.3's ops, which its custom lists may hold. Also the ops that its AMP
// runs in f32, because they have no 16-bit GPU kernel.
#pragma once

#include "core/tensor/tensor.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Returns all names in alphabetical order.
const std::vector<std::string>& paddle_op_names();
bool is_paddle_op(std::string_view name);
// Returns whether Paddle has no GPU kernel of this op for f16 or bf16.
bool paddle_lacks_gpu_kernel(std::string_view name, DType lower);

}  // namespace booster
