// The weights of rows in losses that name a class for each row. For one thread.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Weight of each target's class (f32 or f64 of `weight`'s classes; undefined: 1), 0 where the
// target is `ignore_index`. Has target's shape; off the tape. The mean of such a loss divides by
// their sum.
Tensor target_weights(const Tensor& target, const Tensor& weight, int64_t ignore_index,
                      DType dtype);

}  // namespace booster
