#include "plugins/gradients/rank_norms.h"

#include "core/autograd/functions.h"
#include "core/optim/clip.h"
#include "core/tensor/grad_mode.h"
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

// The norms of gradients that are parts of layers, and of the others, with their p-th powers.
Tensor two_powers(const Parameters& parameters, const std::function<bool(const Tensor&)>& is_apart,
                  double power) {
  std::vector<Tensor> gradients[2];
  for (const NamedTensor& parameter : parameters)
    if (const Tensor grad = dense_grad(parameter.tensor); grad.defined())
      gradients[is_apart(parameter.tensor) ? 0 : 1].push_back(grad);
  const Device device = parameters[0].tensor.device();
  const Tensor powers = empty({2}, {DType::f64, device});
  for (int i = 0; i < 2; ++i)
    untracked::select(powers, 0, i).copy_(gradient_norm(gradients[i], power).to(device));
  if (!std::isinf(power)) raise_to(powers, power);
  return powers;
}

void add_squares_of_parts(const Tensor& squares, const Parameters& parameters,
                          const std::function<bool(const Tensor&)>& is_apart, const Group& layers) {
  std::vector<Tensor> places;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (is_apart(parameters[i].tensor))
      places.push_back(untracked::narrow(squares, 0, 2 * static_cast<int64_t>(i), 2));
  if (places.empty()) return;  // on all ranks alike
  const Tensor packed = cat(places);
  layers.all_reduce(packed);
  for (size_t i = 0; i < places.size(); ++i)
    places[i].copy_(untracked::narrow(packed, 0, 2 * static_cast<int64_t>(i), 2));
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

NormSharing share_over_layers(std::shared_ptr<const Parameters> parameters,
                              std::function<bool(const Tensor&)> is_apart, Group owners,
                              Group layers) {
  const auto norm = [=](double power) {
    const NoGradGuard no_grad;
    const bool largest = std::isinf(power);
    const CollectiveOp join = largest ? CollectiveOp::max : CollectiveOp::sum;
    const Tensor powers = two_powers(*parameters, is_apart, power);
    const Tensor apart = untracked::narrow(powers, 0, 0, 1);
    if (owners.size() > 1) owners.all_reduce(powers, join);
    if (layers.size() > 1) layers.all_reduce(apart, join);
    const Tensor all = largest ? amax(powers, {0}) : sum(powers, {0});
    if (!largest) raise_to(all, 1 / power);
    return all;
  };
  const auto add = [=](const Tensor& squares, const Parameters& stepped) {
    const NoGradGuard no_grad;
    if (owners.size() > 1) owners.all_reduce(squares);
    if (layers.size() > 1) add_squares_of_parts(squares, stepped, is_apart, layers);
  };
  return {.gradient_norm = norm, .add_squares = add};
}

}  // namespace booster
