// How far tensors are from golden ones.
#pragma once

#include "core/autograd/functions.h"
#include "core/tensor/tensor.h"

namespace booster::test {

// Returns the Euclidean distance, relative to the norm of `want`.
inline double distance(const Tensor& got, const Tensor& want) {
  const NoGradGuard no_grad;
  const Tensor exact = untracked::cast(want, DType::f64);
  return norm(untracked::cast(got, DType::f64) - exact).item() / norm(exact).item();
}

}  // namespace booster::test
