// Small tensors of any dtype and strides for tests of kernels. Elements are read and written as
// double, one by one, by code independent of the kernels.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/device/memory.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace booster::kernels::test {

using Index = std::vector<int64_t>;

// 16-bit floats by arithmetic on doubles; nothing here needs to be fast.
inline double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}
inline uint16_t double_to_half(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7E00;
  x = std::abs(x);
  if (x >= 65520) return sign | 0x7C00;
  const int exponent = std::max(x > 0 ? std::ilogb(x) : -14, -14);
  const auto steps = static_cast<uint16_t>(std::nearbyint(std::ldexp(x, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps));
}
inline double bf16_to_double(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
// The tests' values fit f32 exactly or round the same way.
inline uint16_t double_to_bf16(double x) {
  const auto bits = __builtin_bit_cast(uint32_t, static_cast<float>(x));
  if (std::isnan(x)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + (((bits >> 16) & 1))) >> 16);
}

struct Plain {
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;
  std::shared_ptr<std::vector<char>>
      bytes;  // copies of a Plain share no memory: see the copy constructor

  Plain() = default;
  Plain(DType d, std::vector<int64_t> s, std::vector<int64_t> st)
      : dtype(d), shape(std::move(s)), strides(std::move(st)) {
    int64_t last = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      last += std::max<int64_t>(shape[i] - 1, 0) * strides[i];
    bytes = std::make_shared<std::vector<char>>((last + 1) * size_of(dtype));
  }
  Plain(const Plain& other)
      : dtype(other.dtype),
        shape(other.shape),
        strides(other.strides),
        bytes(other.bytes ? std::make_shared<std::vector<char>>(*other.bytes) : nullptr) {}
  Plain& operator=(const Plain&) = default;

  char* address(const Index& index) const {
    int64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) offset += index[i] * strides[i];
    return bytes->data() + offset * size_of(dtype);
  }
  double at(const Index& index) const {
    const char* p = address(index);
    const auto as = [p](auto value) { return std::memcpy(&value, p, sizeof value), value; };
    switch (dtype) {
      case DType::f32: return as(float());
      case DType::f64: return as(double());
      case DType::f16: return half_to_double(as(uint16_t()));
      case DType::bf16: return bf16_to_double(as(uint16_t()));
      case DType::i32: return as(int32_t());
      case DType::i64: return static_cast<double>(as(int64_t()));
      default: return as(uint8_t());
    }
  }
  void set(const Index& index, double x) const {
    char* p = address(index);
    const auto put = [p](auto value) { std::memcpy(p, &value, sizeof value); };
    switch (dtype) {
      case DType::f32: return put(static_cast<float>(x));
      case DType::f64: return put(x);
      case DType::f16: return put(double_to_half(x));
      case DType::bf16: return put(double_to_bf16(x));
      case DType::i32: return put(static_cast<int32_t>(x));
      case DType::i64: return put(static_cast<int64_t>(x));
      default: return put(static_cast<uint8_t>(x));
    }
  }
  void fill_bytes(int byte) const { std::memset(bytes->data(), byte, bytes->size()); }

  View view() const {
    View view = {.data = bytes->data(), .dtype = dtype, .ndim = static_cast<int>(shape.size())};
    for (size_t i = 0; i < shape.size(); ++i) {
      view.shape[i] = shape[i];
      view.strides[i] = strides[i];
    }
    return view;
  }
};

inline void for_each_index(const std::vector<int64_t>& shape,
                           const std::function<void(const Index&)>& body) {
  for (const int64_t size : shape)
    if (size == 0) return;
  Index index(shape.size(), 0);
  while (true) {
    body(index);
    int i = static_cast<int>(shape.size()) - 1;
    while (i >= 0 && ++index[i] == shape[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

// Returns the same images (n, c, h, w) with memory order (n, h, w, c).
inline Plain channels_last(const Plain& images) {
  const auto& s = images.shape;
  const Plain result(images.dtype, s, {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]});
  for_each_index(s, [&](const Index& i) { result.set(i, images.at(i)); });
  return result;
}

inline std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

// Returns values uniform in [-1, 1), or whole numbers in [-4, 4] for integer dtypes.
inline Plain random(DType dtype, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& strides, uint32_t seed) {
  Plain tensor(dtype, shape, strides);
  std::mt19937 generator(seed);
  for_each_index(shape, [&](const Index& index) {
    const double x = generator() * 0x1p-31 - 1;
    tensor.set(index, is_floating(dtype) ? x : std::floor(x * 4.5));
  });
  return tensor;
}
inline Plain random(DType dtype, const std::vector<int64_t>& shape, uint32_t seed) {
  return random(dtype, shape, contiguous_strides(shape), seed);
}

// Returns the allowed error of one rounding of `value` to the dtype. Before it come sums in f32
// (f64 for f64) of terms whose absolute values add up to `magnitude`.
inline double tolerance(DType dtype, double value, double magnitude) {
  const double sums = magnitude * 0x1p-20;
  switch (dtype) {
    case DType::f32: return sums;
    case DType::f64: return magnitude * 0x1p-46;
    case DType::f16: return std::abs(value) * 0x1p-11 * 1.001 + 0x1p-25 + sums;
    case DType::bf16: return std::abs(value) * 0x1p-8 * 1.001 + sums;
    default: return 0;
  }
}

}  // namespace booster::kernels::test
