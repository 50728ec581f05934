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

namespace {

// Returns dense strides of x's shape, larger where x's are larger. Returns row-major ones if x is
// broadcast along a dimension.
Shape strides_in_order_of(const Tensor& x) {
  const Shape &shape = x.shape(), &given = x.strides();
  int order[kernels::max_dims];
  for (int i = 0; i < x.ndim(); ++i) {
    if (shape[i] != 1 && given[i] == 0) return shape.dense_strides();
    int at = i;
    for (; at > 0 && shape[i] != 1 && given[order[at - 1]] < given[i]; --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
  Shape strides = shape;
  int64_t next = 1;
  for (int at = x.ndim() - 1; at >= 0; --at) {
    strides[order[at]] = next;
    next *= shape[order[at]] > 0 ? shape[order[at]] : 1;
  }
  return strides;
}

}  // namespace

Tensor empty_in_order_of(const Tensor& x, const Shape& shape, TensorOptions options) {
  if (shape.ndim() == 4 && is_channels_last(x)) return empty_channels_last(shape, options);
  if (x.is_contiguous() || shape != x.shape()) return empty(shape, options);
  const Tensor y = empty({shape.numel()}, options);
  return untracked::strided(y, shape, strides_in_order_of(x), 0);
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
