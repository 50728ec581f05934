// Numbers of a tensor that a function cannot use.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Position in row-major order of the first number outside of [least, most], nan included; -1 if
// there is none. Waits for the device.
int64_t first_outside(const Tensor& x, double least, double most);

}  // namespace booster
