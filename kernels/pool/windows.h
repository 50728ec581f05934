// The positions of an image that lie under a window of pooling.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::BOOSTER_VARIANT {

struct Plane {
  int64_t height, width;
  int64_t size() const { return height * width; }
};
inline Plane plane_of(const View& x) { return {x.shape[2], x.shape[3]}; }

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Positions of one dimension under one window: begin, begin + step, ... below end. `count` is the
// mean's divisor.
struct Range {
  int64_t begin, end, count;
  int64_t step = 1;
};

// Returns the i-th window along `axis` of a dimension of n positions. With count_padding, count
// includes padding on both sides, but no positions beyond it.
inline Range window_range(int64_t i, const Window2d& window, int axis, int64_t n,
                          bool count_padding) {
  const int64_t start = i * window.stride[axis] - window.padding[axis];
  const int64_t stop = start + window.kernel[axis];
  const int64_t begin = start > 0 ? start : 0, end = smaller(stop, n);
  return {begin, end,
          count_padding ? smaller(stop, n + window.padding[axis]) - start : end - begin};
}

// Returns the i-th of `out` windows that cover n positions.
inline Range adaptive_range(int64_t i, int64_t out, int64_t n) {
  const int64_t begin = i * n / out, end = ((i + 1) * n + out - 1) / out;
  return {begin, end, end - begin};
}

// Returns the i-th dilated window along `axis`, without the positions before the first one.
inline Range dilated_range(int64_t i, const Window2d& window, int axis, int64_t n) {
  const int64_t step = window.dilation[axis];
  const int64_t start = i * window.stride[axis] - window.padding[axis];
  const int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
  return {start + skipped * step, smaller(start + window.kernel[axis] * step, n), 0, step};
}

struct Places {
  Range rows, columns;
};
inline Places places_under(const Window2d& window, int64_t i, int64_t j, Plane in) {
  return {dilated_range(i, window, 0, in.height), dilated_range(j, window, 1, in.width)};
}
template <class Body>
inline void for_each_place(const Places& places, Body&& body) {
  const auto& [rows, columns] = places;
  for (int64_t h = rows.begin; h < rows.end; h += rows.step)
    for (int64_t w = columns.begin; w < columns.end; w += columns.step) body(h, w);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
