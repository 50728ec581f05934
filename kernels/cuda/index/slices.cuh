// A contiguous tensor seen as (outer, extent, inner) around one dimension.
#pragma once

#include "kernels/cuda/space.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

struct Slices {
  int64_t outer, extent, inner;
};

inline Slices slices_of(const View& x, int dim) {
  Slices slices = {1, x.ndim ? x.shape[dim] : 1, 1};
  for (int d = 0; d < dim; ++d) slices.outer *= x.shape[d];
  for (int d = dim + 1; d < x.ndim; ++d) slices.inner *= x.shape[d];
  return slices;
}

// Returns the positions of `index` in contiguous x, without the part that `dim` contributes.
inline Space space_without(const View& x, const View& index, int dim) {
  Space space;
  for (int d = 0; d < index.ndim; ++d) space.add(index.shape[d], d == dim ? 0 : x.strides[d]);
  return space;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
