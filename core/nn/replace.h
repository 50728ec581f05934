// Resizes a parameter in place, for a rank that keeps only a part of it, or nothing.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Gives x a copy of `numbers`, of x's dtype and device and of any shape. Every handle to x sees
// them, and x's gradient is dropped. An optimizer that has x must not hold state for it yet.
void replace_(const Tensor& x, const Tensor& numbers);

}  // namespace booster
