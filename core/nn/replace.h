// A parameter that changes its size in place: a rank keeps a part of it, or nothing.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Gives x a copy of other numbers, of its dtype and device and of any shape: every handle sees
// them, and x's gradient is dropped. An optimizer that has x must not have kept anything for it.
void replace_(const Tensor& x, const Tensor& numbers);

}  // namespace booster
