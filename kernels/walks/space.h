// Some dimensions of a tensor as one range of positions, each with its offset.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns a / b for a >= 0 and b > 0. A 64-bit division takes a GPU about a hundred instructions,
// and sizes that need it are rare.
KERNEL_FN int64_t quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return uint32_t(a) / uint32_t(b);
  return a / b;
}

// Dimensions with their strides in elements; dense neighbours are merged.
struct Space {
  int ndim = 0;
  int64_t shape[max_dims];
  int64_t strides[max_dims];

  void add(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (ndim > 0 && strides[ndim - 1] == stride * size) {
      shape[ndim - 1] *= size;
      strides[ndim - 1] = stride;
      return;
    }
    shape[ndim] = size;
    strides[ndim++] = stride;
  }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }
  KERNEL_FN int64_t last_stride() const { return ndim > 0 ? strides[ndim - 1] : 0; }
  // Returns the offset of position i of the first `dims` dimensions.
  KERNEL_FN int64_t offset_in(int dims, int64_t i) const {
    int64_t offset = 0;
    for (int d = dims - 1; d > 0; --d) {
      const int64_t rest = quotient(i, shape[d]);
      offset += (i - rest * shape[d]) * strides[d];
      i = rest;
    }
    return dims > 0 ? offset + i * strides[0] : 0;
  }
  KERNEL_FN int64_t offset(int64_t i) const { return offset_in(ndim, i); }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
