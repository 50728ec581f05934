// Indexing of a tensor with Python's brackets:
//
//   x[{Slice(1, {}, 2), 0}]          x[1::2, 0]
//   x[{ellipsis, new_axis}]          x[..., None]
//   x[{Slice(), rows}]               x[:, rows], rows an i64 tensor
//   x[greater(x, 0)]                 x[x > 0]: a mask
//
// Each index takes the next dimension; remaining dimensions stay whole. Recorded on the tape.
#pragma once

#include "core/tensor/tensor.h"

#include <concepts>
#include <optional>
#include <variant>

namespace booster {

// start:end:step. Negative positions count from the end, positions outside are clamped. step >= 1.
struct Slice {
  std::optional<int64_t> start, end;
  int64_t step;
  explicit Slice(std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
                 int64_t step = 1)
      : start(start), end(end), step(step) {}
};

// Stands for as many whole dimensions as the other indices leave.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;

// Adds a dimension of size 1; takes none of x's.
struct NewAxis {};
inline constexpr NewAxis new_axis;

// One index. A position (negative: from the end) removes its dimension. A Slice keeps it. At most
// one index is a tensor: positions (i64 or i32), whose shape replaces the dimension, or a mask
// (bool) for as many dimensions as it has, which become one dimension of the kept elements.
class Index {
 public:
  using Value = std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>;
  template <std::integral I>
  requires(!std::same_as<I, bool>) Index(I position) : value_(static_cast<int64_t>(position)) {}
  Index(Slice range) : value_(range) {}
  Index(Ellipsis dots) : value_(dots) {}
  Index(NewAxis axis) : value_(axis) {}
  Index(Tensor places) : value_(std::move(places)) {}
  const Value& value() const { return value_; }

 private:
  Value value_;
};

}  // namespace booster
