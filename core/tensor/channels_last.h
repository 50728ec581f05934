// Images (n, c, h, w) whose numbers are in the order (n, h, w, c) in memory: what convolutions on a
// CPU read and write without rearranging it. `channels_last` of core/autograd/functions.h makes
// them; results of conv2d, batch_norm, elementwise functions, casts, cat and slice of such images
// are again, as in PyTorch.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// True for 4 dimensions in that order, with gaps or without; false if they are in row-major order
// as well, which is so for a single channel.
bool is_channels_last(const Tensor& x);
// The same, without gaps.
bool is_dense_channels_last(const Tensor& x);

// Fresh dense memory of 4 dimensions with channels last.
Tensor empty_channels_last(const Shape& shape, TensorOptions options);
// Fresh dense memory of a shape: channels last if x is, else row-major.
Tensor empty_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options);
// The same with x's shape and device.
Tensor empty_in_order_of(const Tensor& x, DType dtype);
Tensor zeros_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options);

namespace untracked {
// x, or a copy, dense: channels last if x is, else contiguous.
Tensor dense(const Tensor& x);
// x, or a copy, dense and in the order of `like`.
Tensor dense_in_order_of(const Tensor& like, const Tensor& x);
// A dense view or copy with channels last; x has 4 dimensions. Contiguous for a single channel.
Tensor channels_last(const Tensor& x);
}  // namespace untracked

}  // namespace booster
