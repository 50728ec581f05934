// Clipping by an optimizer: by norm in the next step, by value immediately.
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <algorithm>

namespace booster {
namespace {

// Returns the norm of the gradients times an f32 factor on the device.
Tensor norm_of_products(const Tensor& norm, const Tensor& factor) {
  const Tensor result = untracked::clone(norm), wide = untracked::cast(factor, norm.dtype());
  kernels::on(norm.device())
      .binary(kernels::BinaryOp::mul, result.view(), result.view(), wide.view());
  return result;
}

bool same_window(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.data() == b.data() && a.numel() == b.numel();
}

}  // namespace

Tensor Optimizer::Body::gradient_norm(double power) const {
  if (sharing.gradient_norm) return sharing.gradient_norm(power);
  return booster::gradient_norm(gradients(), power).to(device());
}

void Optimizer::Body::forget_clip() {
  clip_factor = clipped_norm = Tensor();
  clipped.clear();
  clip_was_used = false;
}

bool Optimizer::Body::gradients_are_clipped() const {
  const auto is_clipped = [](const Tensor& gradient, const auto& clipped) {
    return same_window(gradient, clipped.first) && gradient.version() == clipped.second;
  };
  return std::ranges::equal(gradients(), clipped, is_clipped);
}

Tensor Optimizer::Body::use_clip() {
  if (clip_was_used && !gradients_are_clipped()) forget_clip();
  clip_was_used = clip_factor.defined();
  return clip_factor;
}

void Optimizer::Body::settle_clip() {
  const Tensor factor = use_clip();
  if (factor.defined()) scale_gradients(gradients(), factor);
  clip_factor = Tensor();
  clip_was_used = false;
}

Tensor Optimizer::gradient_norm(double power, const Tensor& factor) const {
  const Tensor norm = body_->gradient_norm(power);
  return factor.defined() ? norm_of_products(norm, factor) : norm;
}

DeviceNumber Optimizer::clip_grad_by_norm(double max_norm, double power, const Tensor& factor) {
  body_->check_not_kept("optimizer.clip_grad_by_norm", "clip_grad_by_norm()");
  kernels::refuse_to_record("optimizer.clip_grad_by_norm",
                            "because the host notes it for the next step",
                            "clip_grad_by_value(), or the call after replay()");
  body_->settle_clip();
  const Tensor norm = gradient_norm(power, factor);
  body_->clip_factor = clip_factor(norm, max_norm);
  body_->clipped_norm = norm;
  body_->clipped.clear();
  body_->clip_was_used = false;
  for (const Tensor& gradient : gradients())
    body_->clipped.emplace_back(gradient, gradient.version());
  return DeviceNumber(norm);
}

Tensor Optimizer::clipped_norm() const {
  return body_->gradients_are_clipped() ? body_->clipped_norm : Tensor();
}

Tensor Optimizer::pending_clip() const {
  if (body_->clip_was_used && !body_->gradients_are_clipped()) return {};
  return body_->clip_factor;
}

void Optimizer::settle_clip() { body_->settle_clip(); }

void Optimizer::forget_clipped_norm() { body_->clipped_norm = Tensor(); }

void Optimizer::clip_grad_by_value(double limit) {
  body_->check_not_kept("optimizer.clip_grad_by_value", "clip_grad_by_value()");
  body_->settle_clip();
  forget_clipped_norm();
  clamp_gradients(gradients(), limit);
}

void Optimizer::share_norms(NormSharing sharing) { body_->sharing = std::move(sharing); }

bool Optimizer::shares_norms() const { return static_cast<bool>(body_->sharing.gradient_norm); }

}  // namespace booster
