// Tensors of one shape and any strides, iterated together: dimensions are merged if the strides of
// all tensors allow it, so that most walks have one dimension.
#pragma once

#include "kernels/launch.h"

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

// Drops sizes of 1 and merges neighbours that are dense in every operand.
inline Walk walk_over(const View* const* views, int operands) {
  Walk walk;
  walk.operands = operands;
  for (int k = 0; k < operands; ++k) {
    walk.data[k] = views[k]->as<char>();
    walk.dtypes[k] = views[k]->dtype;
  }
  const View& first = *views[0];
  for (int i = 0; i < first.ndim; ++i) {
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
