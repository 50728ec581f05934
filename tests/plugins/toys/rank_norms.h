// What the toy plugins share: norms of gradients that several ranks hold.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

// The gradients of those that have one; of `part` where ranks own parts of each.
inline std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters)
    if (const Tensor grad = dense_grad(parameter); grad.defined()) gradients.push_back(grad);
  return gradients;
}

// The p-norm of `here`, counted once, and of what each rank of the group has `apart`, as one.
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
