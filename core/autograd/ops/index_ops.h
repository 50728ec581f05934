// Internal: reading at positions that may count from the end.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns index_select at `positions` (i64 or i32), each from -size to size - 1. The positions may
// have any shape, which replaces dimension `dim`. Errors name `op` and the caller's position.
Tensor slices_at(const char* op, const Tensor& x, int dim, const Tensor& positions);

}  // namespace booster
