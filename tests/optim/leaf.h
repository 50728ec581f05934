// One-dimensional parameters, their gradients and values.
#pragma once

#include "core/tensor/tensor.h"

#include <vector>

namespace booster {

inline Tensor leaf(const std::vector<float>& values, DType dtype = DType::f32) {
  Tensor x = untracked::cast(from_vector(values, {static_cast<int64_t>(values.size())}), dtype);
  return x.requires_grad_();
}
inline void set_grad(const Tensor& x, const std::vector<float>& values) {
  x.set_grad(untracked::cast(from_vector(values, x.shape()), x.dtype()));
}
inline std::vector<float> values_of(const Tensor& x) { return x.to_vector<float>(); }

}  // namespace booster
