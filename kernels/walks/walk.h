// Tensors of one shape and any strides, iterated together. Dimensions are merged if the strides of
// all tensors allow it; so most walks have one dimension.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int max_operands = 5;

// Operands of the same shape, iterated together; operand 0 is the output.
struct Walk {
  int operands = 0;
  int ndim = 0;
  int64_t shape[max_dims];
  int64_t strides[max_operands][max_dims];
  char* data[max_operands];
  DType dtypes[max_operands];
};

inline bool mergeable(const Walk& walk, int outer, int inner) {
  for (int k = 0; k < walk.operands; ++k)
    if (walk.strides[k][outer] != walk.strides[k][inner] * walk.shape[inner]) return false;
  return true;
}

// The dimensions in operand 0's memory order, outermost first, if no other operand has a different
// order (as with channels-last images). Otherwise in their own order.
struct Order {
  int dims[max_dims];
  Order(const View* const* views, int operands) {
    const View& first = *views[0];
    for (int i = 0; i < first.ndim; ++i) dims[i] = i;
    if (descends(first)) return;
    for (int i = 1; i < first.ndim; ++i)
      for (int k = i; k > 0 && distance(first, dims[k - 1]) < distance(first, dims[k]); --k) {
        const int dim = dims[k];
        dims[k] = dims[k - 1];
        dims[k - 1] = dim;
      }
    for (int k = 1; k < operands; ++k)
      if (!descends(*views[k])) {
        for (int i = 0; i < first.ndim; ++i) dims[i] = i;
        return;
      }
  }

 private:
  // Returns the absolute stride; reversed dimensions have negative ones.
  static int64_t distance(const View& view, int dim) {
    return view.strides[dim] < 0 ? -view.strides[dim] : view.strides[dim];
  }
  // Returns true if strides descend in this order; sizes of 1 and broadcast dimensions do not
  // count.
  bool descends(const View& view) const {
    int64_t outer = INT64_MAX;
    for (int i = 0; i < view.ndim; ++i) {
      const int64_t stride = distance(view, dims[i]);
      if (view.shape[dims[i]] == 1 || stride == 0) continue;
      if (stride > outer) return false;
      outer = stride;
    }
    return true;
  }
};

// Drops sizes of 1 and merges neighbours that are dense in every operand.
inline Walk walk_over(const View* const* views, int operands) {
  const Order order(views, operands);
  Walk walk;
  walk.operands = operands;
  for (int k = 0; k < operands; ++k) {
    walk.data[k] = views[k]->as<char>();
    walk.dtypes[k] = views[k]->dtype;
  }
  const View& first = *views[0];
  for (int position = 0; position < first.ndim; ++position) {
    const int i = order.dims[position];
    if (first.shape[i] == 1) continue;
    const int at = walk.ndim;
    walk.shape[at] = first.shape[i];
    for (int k = 0; k < operands; ++k) walk.strides[k][at] = views[k]->strides[i];
    if (at > 0 && mergeable(walk, at - 1, at)) {
      walk.shape[at - 1] *= walk.shape[at];
      for (int k = 0; k < operands; ++k) walk.strides[k][at - 1] = walk.strides[k][at];
    } else {
      ++walk.ndim;
    }
  }
  if (walk.ndim == 0) {
    walk.ndim = 1;
    walk.shape[0] = 1;
    for (int k = 0; k < operands; ++k) walk.strides[k][0] = 1;
  }
  return walk;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
