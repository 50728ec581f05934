// Sizes or strides of a tensor: up to eight values stored in place, so that shapes never use the
// heap.
#pragma once

#include "kernels/arguments/view.h"
#include "platform/error.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace booster {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(sizes.begin(), sizes.size()) {}
  Shape(const std::vector<int64_t>& sizes) : Shape(sizes.data(), sizes.size()) {}
  Shape(const int64_t* sizes, size_t n) {
    check(n <= kernels::max_dims, "shape: too many dimensions; got {}, want at most {}", n,
          kernels::max_dims);
    for (size_t i = 0; i < n; ++i) sizes_[i] = sizes[i];
    n_ = static_cast<int>(n);
  }

  int ndim() const { return n_; }
  int64_t operator[](int i) const { return sizes_[i]; }
  int64_t& operator[](int i) { return sizes_[i]; }
  const int64_t* begin() const { return sizes_; }
  const int64_t* end() const { return sizes_ + n_; }
  // Returns the last size. Throws for a shape without dimensions.
  int64_t back() const {
    check(n_ > 0, "shape: no last size; got a shape without dimensions");
    return sizes_[n_ - 1];
  }

  void push_back(int64_t size) { insert(n_, size); }
  void insert(int at, int64_t size);
  void erase(int at);

  // Returns the product of all sizes; 1 for a scalar. Throws if it exceeds 64 bits.
  int64_t numel() const {
    int64_t n = 1;
    bool exceeds = false;
    for (int i = 0; i < n_; ++i) exceeds |= __builtin_mul_overflow(n, sizes_[i], &n);
    if (exceeds) [[unlikely]]
      refuse_too_large();
    return n;
  }
  // Returns the strides of a dense row-major tensor of this shape. Throws as numel does, ignoring
  // sizes of 0.
  Shape dense_strides() const;
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  std::string to_string() const;  // "(2, 3)"

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.n_ != b.n_) return false;
    for (int i = 0; i < a.n_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] void refuse_too_large() const;
  int64_t sizes_[kernels::max_dims] = {};
  int n_ = 0;
};

// Returns the shape of an elementwise result of a and b by NumPy's rules. Otherwise throws an error
// that names `op`.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

// Returns the bytes of a dense tensor. Throws an error that names `op` for a negative size, and if
// the number of bytes exceeds 64 bits, ignoring sizes of 0.
int64_t dense_bytes(const char* op, const Shape& shape, DType dtype);

// Maps a dimension in [-ndim, ndim) to [0, ndim). Throws an error that names `op` for any other.
int normal_dim(const char* op, int64_t dim, int ndim);
// Does the same for functions that, as in torch, treat a tensor without dimensions as a vector of
// one element. For such a tensor, 0 and -1 give 0, although its shape has no dimension.
int normal_dim_or_only(const char* op, int64_t dim, int ndim);

// --- A range of a tensor's elements by index.

// Elements [begin, end) of a tensor in row-major order; may be empty.
struct ElementRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool contains(const ElementRange& other) const {
    return begin <= other.begin && other.end <= end;
  }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace booster

// Lets check() take a shape as an argument, which is formatted only for an error.
template <>
struct fmt::formatter<booster::Shape> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(const booster::Shape& shape, format_context& context) const;
};
