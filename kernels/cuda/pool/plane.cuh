// The planes of (n, c, h, w), and the positions of one dimension that belong to a window.
#pragma once

#include "kernels/numbers/compute_type.h"
#include "kernels/numbers/convert.h"
#include "kernels/cuda/space.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

struct Plane {
  int64_t height, width;
  KERNEL_FN int64_t size() const { return height * width; }
};
inline Plane plane_of(const View& x) { return {x.shape[2], x.shape[3]}; }

// Element i of all planes as (plane, row, column).
struct Place {
  int64_t plane, row, column;
};
KERNEL_FN Place place_of(const Plane& shape, int64_t i) {
  const int64_t line = quotient(i, shape.width), plane = quotient(line, shape.height);
  return {plane, line - plane * shape.height, i - line * shape.width};
}

// begin, begin + 1, ... below end; `count` is a mean's divisor.
struct Range {
  int64_t begin, end, count;
};

KERNEL_FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
KERNEL_FN int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace booster::kernels::BOOSTER_VARIANT
