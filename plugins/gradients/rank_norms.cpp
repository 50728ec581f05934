#include "plugins/gradients/rank_norms.h"

#include "core/optim/clip.h"
#include "kernels/catalogue.h"

#include <cmath>
#include <utility>

namespace booster {

namespace {
void raise_to(const Tensor& x, double power) {
  const auto& table = kernels::on(x.device());
  table.binary_scalar(kernels::BinaryOp::pow, x.view(), x.view(), power, false);
  x.bump_version();
}
}  // namespace

Tensor norm_over_ranks(const std::vector<Tensor>& gradients, double power, Device device,
                       const Group& group) {
  const Tensor norm = gradient_norm(gradients, power).to(device);
  if (std::isinf(power)) {
    group.all_reduce(norm, CollectiveOp::max);
    return norm;
  }
  raise_to(norm, power);
  group.all_reduce(norm);
  raise_to(norm, 1 / power);
  return norm;
}

NormSharing share_over_ranks(std::shared_ptr<const std::vector<Tensor>> parameters, Group group) {
  const auto norm = [parameters = std::move(parameters), group](double power) {
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : *parameters)
      if (const Tensor grad = dense_grad(parameter); grad.defined()) gradients.push_back(grad);
    return norm_over_ranks(gradients, power, (*parameters)[0].device(), group);
  };
  const auto add = [group](const Tensor& squares, const Parameters&) { group.all_reduce(squares); };
  return {.gradient_norm = norm, .add_squares = add};
}

}  // namespace booster
