// Finds elements of a tensor that a function cannot use.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns the row-major position of the first element outside of [least, most] or nan; -1 if there
// is none. Waits for the device.
int64_t first_outside(const Tensor& x, double least, double most);

}  // namespace booster
