#include "core/optim/clip.h"

#include "core/autograd/gradient_keeper.h"
#include "core/tensor/device_number.h"
#include "core/tensor/tensor_spans.h"
#include "kernels/catalogue.h"
#include "platform/error.h"

#include <cmath>

namespace booster {
namespace {

using kernels::BinaryOp;

constexpr double norm_floor = 1e-6;  // PyTorch's; avoids division by 0

std::vector<Tensor> gradients_of(const Parameters& parameters) {
  std::vector<Tensor> gradients;
  for (const auto& [name, tensor] : parameters)
    if (Tensor grad = dense_grad(tensor); grad.defined()) gradients.push_back(std::move(grad));
  return gradients;
}

void check_none_kept(const char* call, const Parameters& parameters, const char* instead) {
  for (const auto& [name, tensor] : parameters) check_not_kept(call, tensor, instead);
}

void mark_changed(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) tensor.bump_version();
}

}  // namespace

Tensor dense_grad(const Tensor& parameter) {
  Tensor grad = parameter.grad();
  if (!grad.defined() || grad.is_contiguous()) return grad;
  grad = untracked::clone(grad);
  parameter.set_grad(grad);
  return grad;
}

Tensor gradient_norm(const std::vector<Tensor>& gradients, double power) {
  check(power > 0, "gradient_norm: p is out of range; got {}, want a number above 0", power);
  const Device device = gradients.empty() ? Device{} : gradients[0].device();
  Tensor norm = zeros({}, {DType::f64, device});
  kernels::on(device).multi_norm(TensorSpans(gradients), power, static_cast<double*>(norm.data()));
  return norm;
}

Tensor clip_factor(const Tensor& norm, double max_norm) {
  check(max_norm >= 0, "clip_grad_norm: max_norm is out of range; got {}, want at least 0",
        max_norm);
  const auto& table = kernels::on(norm.device());
  const Tensor factor = untracked::clone(norm);
  table.binary_scalar(BinaryOp::add, factor.view(), factor.view(), norm_floor, false);
  table.binary_scalar(BinaryOp::div, factor.view(), factor.view(), max_norm, true);
  table.binary_scalar(BinaryOp::minimum, factor.view(), factor.view(), 1, false);
  return factor;
}

void scale_gradients(const std::vector<Tensor>& gradients, const Tensor& factor) {
  kernels::on(factor.device())
      .multi_scale(TensorSpans(gradients), device_double(untracked::cast(factor, DType::f64)));
  mark_changed(gradients);
}

double clip_grad_norm_(const Parameters& parameters, double max_norm, double power,
                       bool error_if_nonfinite) {
  check_none_kept("clip_grad_norm_", parameters, "clip_grad_by_norm()");
  const auto gradients = gradients_of(parameters);
  const Tensor norm = gradient_norm(gradients, power);
  const Tensor factor = clip_factor(norm, max_norm);
  const double value = norm.item();
  check(!error_if_nonfinite || std::isfinite(value),
        "clip_grad_norm_: the norm of the gradients is not finite; got {}", value);
  if (factor.item() != 1) scale_gradients(gradients, factor);
  return value;
}

void clip_grad_value_(const Parameters& parameters, double limit) {
  check_none_kept("clip_grad_value_", parameters, "clip_grad_by_value()");
  clamp_gradients(gradients_of(parameters), limit);
}

void clamp_gradients(const std::vector<Tensor>& gradients, double limit) {
  check(limit >= 0, "clip_grad_value_: limit is out of range; got {}, want at least 0", limit);
  if (gradients.empty()) return;
  kernels::on(gradients[0].device()).multi_clamp(TensorSpans(gradients), limit);
  mark_changed(gradients);
}

}  // namespace booster
