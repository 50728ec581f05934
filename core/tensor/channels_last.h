// Functions on images of shape (n, c, h, w) with elements in the memory order (n, h, w, c), which
// convolutions on a CPU read and write without a copy. `channels_last` of core/autograd/functions.h
// makes them. conv2d, batch_norm, elementwise functions, casts, cat and slice keep the order, as in
// PyTorch.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns true for 4 dimensions in that order, with or without gaps. Returns false if x is in
// row-major order as well, as with a single channel.
bool is_channels_last(const Tensor& x);
// Returns true for an image in this order without gaps.
bool is_dense_channels_last(const Tensor& x);

// Returns uninitialised dense memory of 4 dimensions, channels last.
Tensor empty_channels_last(const Shape& shape, TensorOptions options);
// Returns uninitialised dense memory of a shape: channels last if x is; in the order of x's
// dimensions in memory if this is x's shape; else row-major. Elementwise functions thus read and
// write in one order.
Tensor empty_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options);
// Return the same with x's shape and device; and zeros.
Tensor empty_in_order_of(const Tensor& x, DType dtype);
Tensor zeros_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options);

namespace untracked {
// Returns x, or a copy, dense: channels last if x is, else contiguous.
Tensor dense(const Tensor& x);
// Returns x, or a copy, dense and in the order of `like`.
Tensor dense_in_order_of(const Tensor& like, const Tensor& x);
// Returns a dense view or copy, channels last; x has 4 dimensions. Contiguous for a single channel.
Tensor channels_last(const Tensor& x);
}  // namespace untracked

}  // namespace booster
