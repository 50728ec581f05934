#include "plugins/gradients/rank_norms.h"

#include "core/autograd/functions.h"
#include "core/optim/clip.h"
#include "core/tensor/tensor.h"
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

// Returns the norms of gradients that are parts of layers, and of the others, as p-th powers.
Tensor two_powers(const HeldParameters& held, double power) {
  std::vector<Tensor> gradients[2];
  for (const auto& [name, parameter] : *held.all) {
    if (held.counts_here && !held.counts_here(parameter)) continue;
    if (const Tensor grad = dense_grad(parameter); grad.defined())
      gradients[held.is_apart(parameter) ? 0 : 1].push_back(grad);
  }
  const Device device = held.all->front().tensor.device();
  const Tensor powers = empty({2}, {DType::f64, device});
  for (int i = 0; i < 2; ++i)
    untracked::select(powers, 0, i)
        .copy_(untracked::to(gradient_norm(gradients[i], power), device));
  if (!std::isinf(power)) raise_to(powers, power);
  return powers;
}

void add_squares_of_parts(const Tensor& squares, const Parameters& parameters,
                          const std::function<bool(const Tensor&)>& is_apart, const Group& layers) {
  std::vector<Tensor> places;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (is_apart(parameters[i].tensor))
      places.push_back(untracked::narrow(squares, 0, 2 * static_cast<int64_t>(i), 2));
  if (places.empty()) return;  // the same on all ranks
  const Tensor packed = cat(places);
  layers.all_reduce(packed);
  for (size_t i = 0; i < places.size(); ++i)
    places[i].copy_(untracked::narrow(packed, 0, 2 * static_cast<int64_t>(i), 2));
}
}  // namespace

Tensor norm_over_ranks(const std::vector<Tensor>& gradients, double power, Device device,
                       const Group& group) {
  const Tensor norm = untracked::to(gradient_norm(gradients, power), device);
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

NormSharing share_over_mesh(HeldParameters given) {
  const auto held = std::make_shared<const HeldParameters>(std::move(given));
  const auto norm = [held](double power) {
    const NoGradGuard no_grad;
    const bool largest = std::isinf(power);
    const CollectiveOp join = largest ? CollectiveOp::max : CollectiveOp::sum;
    const Tensor powers = two_powers(*held, power);
    const Tensor apart = untracked::narrow(powers, 0, 0, 1);
    if (held->owners.size() > 1) held->owners.all_reduce(powers, join);
    if (held->layers.size() > 1) held->layers.all_reduce(apart, join);
    const Tensor all = largest ? amax(powers, {0}) : sum(powers, {0});
    if (held->stages.size() > 1) held->stages.all_reduce(all, join);
    if (!largest) raise_to(all, 1 / power);
    return all;
  };
  const auto add = [held](const Tensor& squares, const Parameters& stepped) {
    const NoGradGuard no_grad;
    if (held->owners.size() > 1) held->owners.all_reduce(squares);
    if (held->layers.size() > 1)
      add_squares_of_parts(squares, stepped, held->is_apart, held->layers);
  };
  return {.gradient_norm = norm, .add_squares = add};
}

}  // namespace booster
