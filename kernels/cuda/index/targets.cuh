// The destinations of the elements that a scatter moves.
#pragma once

#include "kernels/cuda/index/slices.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

// Sets targets[i] = the offset in contiguous `out` of the destination of element i of `index`.
inline void write_targets(const View& out, const View& index, int dim, int64_t* targets) {
  const int64_t stride = index.ndim ? out.strides[dim] : 0;
  const Space space = space_without(out, index, dim);
  const int64_t* indices = index.as<const int64_t>();
  for_each_item(index.size(),
                [=] ON_DEVICE(int64_t i) { targets[i] = space.offset(i) + indices[i] * stride; });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
