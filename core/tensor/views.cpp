// Views of the same storage, and copies where no view is possible.
#include "core/tensor/channels_last.h"
#include "core/tensor/computed_on_use.h"
#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"

namespace booster::untracked {
namespace {

// Replaces a size of -1 by the size that the others imply.
Shape resolve(const Tensor& x, const Shape& wanted) {
  Shape shape = wanted;
  int unknown = -1;
  for (int i = 0; i < shape.ndim(); ++i) {
    check(shape[i] >= -1, "reshape: negative size; got {}", wanted);
    if (shape[i] != -1) continue;
    check(unknown < 0, "reshape: more than one size is -1; got {}", wanted);
    unknown = i;
    shape[i] = 1;
  }
  const int64_t known = shape.numel();
  if (unknown < 0) {
    check(known == x.numel(), "reshape: number of elements differs; got {} to {}", x.shape(),
          wanted);
    return shape;
  }
  check(known > 0, "reshape: -1 is ambiguous together with a size of 0; got {} to {}", x.shape(),
        wanted);
  check(x.numel() % known == 0,
        "reshape: no size is possible for -1; got {} to {}, want a multiple of {} elements instead "
        "of {}",
        x.shape(), wanted, known, x.numel());
  shape[unknown] = x.numel() / known;
  return shape;
}

// Finds strides that show x's elements in the new shape without a copy; returns false if there are
// none. Splits each dense range of x's dimensions anew.
bool window_strides(const Tensor& x, const Shape& shape, Shape& strides) {
  strides = shape.dense_strides();
  if (x.numel() == 0 || x.is_contiguous()) return true;
  int view_dim = shape.ndim() - 1;
  int64_t run_elements = 1, view_elements = 1;
  int64_t run_stride = x.strides()[x.ndim() - 1];
  for (int i = x.ndim() - 1; i >= 0; --i) {
    run_elements *= x.shape()[i];
    const bool run_ends =
        i == 0 || (x.shape()[i - 1] != 1 && x.strides()[i - 1] != run_elements * run_stride);
    if (!run_ends) continue;
    while (view_dim >= 0 && (view_elements < run_elements || shape[view_dim] == 1)) {
      strides[view_dim] = view_elements * run_stride;
      view_elements *= shape[view_dim];
      --view_dim;
    }
    if (view_elements != run_elements) return false;
    if (i > 0) {
      run_stride = x.strides()[i - 1];
      run_elements = view_elements = 1;
    }
  }
  return view_dim < 0;
}

// Throws for a view beyond the storage, which would access other memory.
void check_window(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset) {
  check(shape.ndim() == strides.ndim(),
        "strided: sizes and strides differ in number; got {} and {}", shape, strides);
  if (dense_bytes("strided", shape, x.dtype()) == 0) return;
  int64_t first = offset, last = offset;
  bool exceeds = false;
  for (int i = 0; i < shape.ndim(); ++i) {
    int64_t reach = 0;
    exceeds |= __builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    int64_t& end = reach < 0 ? first : last;
    exceeds |= __builtin_add_overflow(end, reach, &end);
  }
  const int64_t elements = x.body()->storage->bytes / size_of(x.dtype());
  check(!exceeds && first >= 0 && last < elements,
        "strided: the view exceeds the storage; got shape {}, strides {} and offset {} in {} "
        "elements",
        shape, strides, offset, elements);
}

// Returns a view that is known to lie inside x's storage.
Tensor window(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset) {
  Reference<TensorBody> body(new TensorBody);
  body->storage = x.body()->storage;
  body->offset = offset;
  body->shape = shape;
  body->strides = strides;
  body->dtype = x.dtype();
  return Tensor(std::move(body));
}

}  // namespace

Tensor strided(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset) {
  check_window(x, shape, strides, offset);
  return window(x, shape, strides, offset);
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const Shape shape = resolve(x, wanted);
  Shape strides;
  if (window_strides(x, shape, strides)) return strided(x, shape, strides, x.body()->offset);
  return strided(untracked::clone(x), shape, shape.dense_strides(), 0);
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  check(static_cast<int>(order.size()) == x.ndim(),
        "permute: wrong number of dimensions; got {}, want {}", order.size(), x.ndim());
  Shape shape = x.shape(), strides = x.strides();
  unsigned seen = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    const int from = normal_dim("permute", order[i], x.ndim());
    check(!(seen >> from & 1), "permute: dimension {} occurs twice", from);
    seen |= 1u << from;
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
  }
  return strided(x, shape, strides, x.body()->offset);
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  const int a = normal_dim_or_only("transpose", dim0, x.ndim()),
            b = normal_dim_or_only("transpose", dim1, x.ndim());
  Shape shape = x.shape(), strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return strided(x, shape, strides, x.body()->offset);
}

Tensor expand(const Tensor& x, const Shape& wanted) {
  if (x.shape() == wanted) return x;
  Shape strides = wanted;
  const int skip = wanted.ndim() - x.ndim();
  bool fits = skip >= 0;
  for (int i = 0; fits && i < wanted.ndim(); ++i) {
    const int64_t size = i < skip ? 1 : x.shape()[i - skip];
    fits = wanted[i] >= 0 && (size == wanted[i] || size == 1);
    strides[i] = size == 1 && wanted[i] != 1 ? 0 : (i < skip ? 0 : x.strides()[i - skip]);
  }
  check(fits, "expand: shape does not broadcast; got {} to {}", x.shape(), wanted);
  return strided(x, wanted, strides, x.body()->offset);
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const int d = normal_dim("narrow", dim, x.ndim());
  check(start >= 0 && length >= 0 && length <= x.shape()[d] - start,
        "narrow: range out of bounds; got {} elements from {} of dimension {} of {}", length, start,
        d, x.shape());
  Shape shape = x.shape();
  shape[d] = length;
  return strided(x, shape, x.strides(), x.body()->offset + start * x.strides()[d]);
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  const int d = normal_dim("select", dim, x.ndim());
  const int64_t n = x.shape()[d];
  check(index >= -n && index < n, "select: index out of bounds; got {} of {} in dimension {}",
        index, n, d);
  const int64_t at = index < 0 ? index + n : index;
  Shape shape = x.shape(), strides = x.strides();
  shape.erase(d);
  strides.erase(d);
  return strided(x, shape, strides, x.body()->offset + at * x.strides()[d]);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  const int d = normal_dim("unsqueeze", dim, x.ndim() + 1);
  Shape shape = x.shape(), strides = x.strides();
  strides.insert(d, d < x.ndim() ? shape[d] * strides[d] : 1);
  shape.insert(d, 1);
  return strided(x, shape, strides, x.body()->offset);
}

Tensor squeeze(const Tensor& x, int64_t dim) {
  const int d = normal_dim_or_only("squeeze", dim, x.ndim());
  Shape shape = x.shape(), strides = x.strides();
  if (x.ndim() > 0 && shape[d] == 1) {
    shape.erase(d);
    strides.erase(d);
  }
  return strided(x, shape, strides, x.body()->offset);
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : untracked::clone(x); }

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (const auto [part, ranks] = spread_columns(x); part.defined())
    return spread_over_ranks({cast(part, dtype), ranks});
  if (auto recipe = recipe_of(x)) return computed_on_use(x.shape(), {dtype, x.device()}, recipe);
  Tensor y = empty_in_order_of(x, dtype);
  kernels::on(x.device()).copy(y.view(), x.view());
  return y;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape kept = x.shape();
  const int skip = x.ndim() - shape.ndim();
  bool fits = skip >= 0;
  for (int i = 0; fits && i < x.ndim(); ++i) {
    if (i < skip || shape[i - skip] == 1) kept[i] = 1;
    else fits = shape[i - skip] == x.shape()[i];
  }
  check(fits, "sum_to: shape does not broadcast to the tensor's; got {} to {}", x.shape(), shape);
  Tensor y = empty(kept, {x.dtype(), x.device()});
  kernels::on(x.device()).reduce(kernels::ReduceOp::sum, y.view(), x.view());
  return strided(y, shape, shape.dense_strides(), 0);
}

}  // namespace booster::untracked

namespace booster {

Tensor Tensor::detach() const {
  check(defined(), "detach: tensor is undefined");
  const Tensor x = untracked::window(*this, shape(), strides(), body_->offset);
  x.body_->is_detached = true;
  return x;
}

}  // namespace booster
