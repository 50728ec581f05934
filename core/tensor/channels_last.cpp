#include "core/tensor/channels_last.h"

#include "kernels/catalogue.h"

namespace booster {

Tensor empty_channels_last(const Shape& shape, TensorOptions options) {
  const Shape in_memory = {shape[0], shape[2], shape[3], shape[1]};
  return untracked::permute(empty(in_memory, options), {0, 3, 1, 2});
}

namespace {

Tensor copied_channels_last(const Tensor& x) {
  const Tensor copy = empty_channels_last(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device()).copy(copy.view(), x.view());
  return copy;
}

}  // namespace

bool is_channels_last(const Tensor& x) {
  if (x.ndim() != 4) return false;
  const Shape &shape = x.shape(), &strides = x.strides();
  if (shape[1] == 1 || strides[1] != 1 || x.is_contiguous()) return false;
  int64_t inner = shape[1];  // smallest allowed stride of the next dimension
  for (const int dim : {3, 2, 0}) {
    if (shape[dim] == 1) continue;
    if (strides[dim] < inner) return false;
    inner = strides[dim] * shape[dim];
  }
  return true;
}

bool is_dense_channels_last(const Tensor& x) {
  return is_channels_last(x) && untracked::permute(x, {0, 2, 3, 1}).is_contiguous();
}

Tensor empty_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options) {
  const bool last = shape.ndim() == 4 && is_channels_last(x);
  return last ? empty_channels_last(shape, options) : empty(shape, options);
}

Tensor empty_in_order_of(const Tensor& x, DType dtype) {
  return empty_in_order_of(x, x.shape(), {dtype, x.device()});
}

Tensor zeros_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options) {
  return empty_in_order_of(x, shape, options).fill_(0);
}

namespace untracked {

Tensor dense(const Tensor& x) { return dense_in_order_of(x, x); }

Tensor dense_in_order_of(const Tensor& like, const Tensor& x) {
  if (!is_channels_last(like)) return contiguous(x);
  return is_dense_channels_last(x) ? x : copied_channels_last(x);
}

Tensor channels_last(const Tensor& x) {
  check(x.defined() && x.ndim() == 4, "channels_last: want images (n, c, h, w); got {}",
        x.defined() ? x.shape() : Shape{});
  const bool is_in_order = untracked::permute(x, {0, 2, 3, 1}).is_contiguous();
  return is_in_order ? x : copied_channels_last(x);
}

}  // namespace untracked
}  // namespace booster
