// Shared by the toy plugins: norms of gradients that several ranks hold.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

// Returns the gradients of the parameters that have one.
inline std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters)
    if (const Tensor grad = dense_grad(parameter); grad.defined()) gradients.push_back(grad);
  return gradients;
}

// Returns the p-norm over two parts as one: `here`, counted once, and `apart` of every rank in the
// group.
inline Tensor norm_over(const Group& group, const std::vector<Tensor>& apart,
                        const std::vector<Tensor>& here, double power) {
  const bool largest = std::isinf(power);
  const auto raised = [&](const std::vector<Tensor>& gradients) {
    const double norm = gradient_norm(gradients, power).item();
    return largest ? norm : std::pow(norm, power);
  };
  std::vector<double> all = {raised(apart)};
  group.all_reduce(all, largest ? CollectiveOp::max : CollectiveOp::sum);
  const double rest = raised(here);
  const double norm = largest ? std::max(all[0], rest) : std::pow(all[0] + rest, 1 / power);
  return scalar(norm, {.dtype = DType::f64});
}

}  // namespace booster::toys
