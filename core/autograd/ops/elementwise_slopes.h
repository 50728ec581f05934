// The derivatives of kernels/elementwise.def as differentiable functions, for second derivatives.
// Arguments that a row's formula does not mention may be undefined.
#pragma once

#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"

namespace booster {

// Returns dx of y = op(x) for the gradient g of y.
Tensor unary_slope(kernels::UnaryOp op, const Tensor& g, const Tensor& x, const Tensor& y);
// Returns da (which = 0) or db (1) of y = op(a, b), in y's shape and dtype.
Tensor binary_slope(kernels::BinaryOp op, int which, const Tensor& g, const Tensor& a,
                    const Tensor& b, const Tensor& y);

}  // namespace booster
