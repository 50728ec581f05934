// Gradients of a linear layer's weight and bias, without a tape. For one thread.
//
// For y = x weight^T + bias, inputs 1 and 2 of a recorded call: dweight (out, in) = g^T x and dbias
// (out) = column sums of g, each in its dtype, if wanted. g (rows, out) is the contiguous gradient
// of y, x is (rows, in). Gradients::compute_or_add may compute them later, or add them to a
// gradient that the weight already has.
#pragma once

#include "core/autograd/tape.h"

namespace booster {

// Computes both gradients by one kernel, when the first of them is requested.
void compute_layer_gradients(Gradients& d, const Tensor& g, const Tensor& x, DType dweight,
                             DType dbias);
void compute_weight_gradient(Gradients& d, const Tensor& g, const Tensor& x, DType dweight);

}  // namespace booster
