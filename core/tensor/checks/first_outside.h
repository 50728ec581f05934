// Numbers of a tensor that a function cannot use.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Position in row-major order of the first number that is not in [least, most], as a nan; -1 if all
// are. Waits for the device.
int64_t first_outside(const Tensor& x, double least, double most);

}  // namespace booster
