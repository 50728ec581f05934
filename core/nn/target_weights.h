// Row weights in losses with a class number for each row. For one thread.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns the weight of each target's class, and 0 where the target is `ignore_index`. `weight`
// holds one f32 or f64 value per class; undefined stands for 1. The result has target's shape and
// is off the tape. The mean of such a loss divides by its sum.
Tensor target_weights(const Tensor& target, const Tensor& weight, int64_t ignore_index,
                      DType dtype);

}  // namespace booster
