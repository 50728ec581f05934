#include "core/tensor/shape.h"

#include <algorithm>

namespace booster {

void Shape::insert(int at, int64_t size) {
  check(n_ < kernels::max_dims, "shape: too many dimensions; got {}, want at most {}", n_ + 1,
        kernels::max_dims);
  for (int i = n_; i > at; --i) sizes_[i] = sizes_[i - 1];
  sizes_[at] = size;
  ++n_;
}

void Shape::erase(int at) {
  for (int i = at; i + 1 < n_; ++i) sizes_[i] = sizes_[i + 1];
  sizes_[--n_] = 0;
}

Shape Shape::dense_strides() const {
  Shape strides = *this;
  int64_t stride = 1;
  for (int i = n_ - 1; i >= 0; --i) {
    strides.sizes_[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(sizes_[i], 1), &stride))
      refuse_too_large();
  }
  return strides;
}

void Shape::refuse_too_large() const {
  fail("shape: the number of elements exceeds 64 bits; got {}", *this);
}

std::string Shape::to_string() const {
  std::string text = "(";
  for (int i = 0; i < n_; ++i) text += (i ? ", " : "") + std::to_string(sizes_[i]);
  return text + (n_ == 1 ? ",)" : ")");
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.ndim() >= b.ndim() ? a : b;
  const Shape& shorter = a.ndim() >= b.ndim() ? b : a;
  Shape out = longer;
  const int skip = longer.ndim() - shorter.ndim();
  for (int i = 0; i < shorter.ndim(); ++i) {
    const int64_t x = longer[i + skip], y = shorter[i];
    check(x == y || x == 1 || y == 1, "{}: shapes do not broadcast; got {} and {}", op, a, b);
    out[i + skip] = x == 1 ? y : x;
  }
  return out;
}

int64_t dense_bytes(const char* op, const Shape& shape, DType dtype) {
  int64_t bytes = size_of(dtype);
  bool exceeds = false, has_none = false;
  for (const int64_t size : shape) {
    check(size >= 0, "{}: negative size; got shape {}", op, shape);
    exceeds |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
    has_none |= size == 0;
  }
  check(!exceeds, "{}: the number of bytes exceeds 64 bits; got shape {} of {}", op, shape,
        name_of(dtype));
  return has_none ? 0 : bytes;
}

int normal_dim(const char* op, int64_t dim, int ndim) {
  check(ndim > 0, "{}: the tensor has no dimensions; got dimension {}", op, dim);
  check(dim >= -ndim && dim < ndim, "{}: dimension out of range; got {}, want {} to {}", op, dim,
        -ndim, ndim - 1);
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

int normal_dim_or_only(const char* op, int64_t dim, int ndim) {
  return normal_dim(op, dim, std::max(ndim, 1));
}

}  // namespace booster

fmt::format_context::iterator fmt::formatter<booster::Shape>::format(
    const booster::Shape& shape, format_context& context) const {
  const std::string text = shape.to_string();
  return std::copy(text.begin(), text.end(), context.out());
}
