// Internal: reading by positions that may count from the end.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// index_select with positions (i64 or i32) from -size to size - 1, of any shape, which takes the
// place of the dimension. Errors name `op` and a position as it was given.
Tensor slices_at(const char* op, const Tensor& x, int dim, const Tensor& positions);

}  // namespace booster
