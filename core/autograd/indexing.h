// Parts of a tensor as Python writes them between brackets:
//
//   x[{Slice(1, {}, 2), 0}]          x[1::2, 0]
//   x[{ellipsis, new_axis}]          x[..., None]
//   x[{Slice(), rows}]               x[:, rows], rows an i64 tensor
//   x[greater(x, 0)]                 x[x > 0]: a mask
//
// Each index takes the next dimension; dimensions that are left over stay whole. Recorded.
#pragma once

#include "core/tensor/tensor.h"

#include <concepts>
#include <optional>
#include <variant>

namespace booster {

// start:end:step. Positions below 0 count from the end, those outside are moved inside. step >= 1.
struct Slice {
  std::optional<int64_t> start, end;
  int64_t step;
  explicit Slice(std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
                 int64_t step = 1)
      : start(start), end(end), step(step) {}
};

// As many whole dimensions as the other indices leave over.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;

// A dimension of size 1, which takes none.
struct NewAxis {};
inline constexpr NewAxis new_axis;

// What stands for a dimension: a position, from the end if negative, whose dimension goes; a
// Slice; or one tensor at most: positions (i64 or i32), whose shape takes the dimension's place, or
// a mask (bool) for as many dimensions as it has, which become one of what it keeps.
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
