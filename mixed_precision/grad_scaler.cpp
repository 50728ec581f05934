#include "mixed_precision/grad_scaler.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "kernels/catalogue.h"

#include <cmath>

namespace booster {

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), initial_scale_(options.init_scale) {
  if (!options.enabled) return;
  check(options.growth_factor > 1, "GradScaler: growth_factor must be > 1; got {}",
        options.growth_factor);
  check(options.backoff_factor < 1, "GradScaler: backoff_factor must be < 1; got {}",
        options.backoff_factor);
  check(options.backoff_factor > 0, "GradScaler: backoff_factor must be > 0; got {}",
        options.backoff_factor);
  check(std::isfinite(options.init_scale) && options.init_scale > 0,
        "GradScaler: init_scale must be finite and > 0; got {}", options.init_scale);
}

void GradScaler::make_state(Device device) {
  if (scale_.defined()) return;
  scale_ = scalar(initial_scale_, {DType::f32, device});
  inverse_ =
      scalar(1.0 / static_cast<double>(static_cast<float>(initial_scale_)), {DType::f32, device});
  tracker_ = scalar(static_cast<double>(initial_tracker_), {DType::i32, device});
}

Tensor GradScaler::scale(const Tensor& loss) {
  check(loss.defined() && is_floating(loss.dtype()), "GradScaler::scale: want a floating loss");
  if (!options_.enabled) return loss;
  make_state(loss.device());
  const PolicyScope no_casts(nullptr);
  // A copy: update() may change the scale before this graph is walked again.
  const Tensor factor = scale_.clone();
  return mul(loss.dtype() == DType::f64 ? loss : cast(loss, DType::f32), factor);
}

GradScaler::Entry& GradScaler::entry(const Optimizer& optimizer) {
  for (Entry& entry : entries_)
    if (entry.optimizer == optimizer) return entry;
  entries_.push_back({optimizer, Stage::ready, {}});
  return entries_.back();
}

void GradScaler::check_inverse() const {
  const double inverse = inverse_.item();
  check(std::isfinite(inverse),
        "GradScaler: the loss scale collapsed to {}, its inverse is not finite; the loss or the "
        "parameters hold inf or nan, or the learning rate is too high",
        get_scale());
}

void GradScaler::begin(const char* call, Optimizer& optimizer) {
  check(scale_.defined(), "GradScaler::{}: no loss was scaled yet; want scale(loss) first", call);
  const Stage stage = entry(optimizer).stage;
  check(stage != Stage::stepped, "GradScaler::{}: called after step() since the last update()",
        call);
}

// One pass over the gradients: notes what is not finite, and with `write` multiplies by 1 / scale.
void GradScaler::look(Entry& entry, bool write) {
  const Parameters with_grad = entry.optimizer.parameters_with_grad();
  check(!with_grad.empty(),
        "GradScaler::step: no inf checks were recorded for this optimizer: none of its parameters "
        "has a gradient; want a backward pass of a loss that they took part in");
  std::vector<kernels::TensorSpan> spans;
  for (const auto& [name, parameter] : with_grad) {
    const Tensor grad = parameter.grad();
    check(grad.dtype() != DType::f16,
          "GradScaler: attempting to unscale FP16 gradients; parameter {} is f16, want f32 "
          "parameters (or masters, as fp16_naive keeps them)",
          name);
    spans.push_back({grad.data(), grad.numel(), grad.dtype()});
  }
  const Tensor one = write ? inverse_ : scalar(1, {DType::f32, inverse_.device()});
  Tensor found = zeros({}, {DType::f32, inverse_.device()});
  kernels::on(inverse_.device())
      .multi_unscale({spans.data(), static_cast<int64_t>(spans.size())},
                     static_cast<const float*>(one.data()), static_cast<float*>(found.data()));
  if (write)
    for (const auto& parameter : with_grad) parameter.tensor.grad().bump_version();
  entry.found_inf = found;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  begin("unscale_", optimizer);
  Entry& mine = entry(optimizer);
  check(mine.stage == Stage::ready,
        "GradScaler::unscale_: already called for this optimizer since the last update()");
  check_inverse();
  look(mine, true);
  mine.stage = Stage::unscaled;
}

Tensor GradScaler::found_inf(Optimizer& optimizer) {
  begin("step", optimizer);
  Entry& mine = entry(optimizer);
  if (mine.stage == Stage::ready && !mine.found_inf.defined()) {
    check_inverse();
    // Below 1 the product could overflow where the gradient did not: multiply and check both.
    if (get_scale() < 1) {
      look(mine, true);
      mine.stage = Stage::unscaled;
    } else {
      look(mine, false);
    }
  }
  return mine.found_inf;
}

Tensor GradScaler::pending_inverse(Optimizer& optimizer) const {
  for (const Entry& entry : entries_)
    if (entry.optimizer == optimizer && entry.stage != Stage::ready) return {};
  return inverse_;
}

void GradScaler::mark_stepped(Optimizer& optimizer) { entry(optimizer).stage = Stage::stepped; }

void GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  const Tensor found = found_inf(optimizer), inverse = pending_inverse(optimizer);
  optimizer.step(
      {.found_inf = static_cast<const float*>(found.data()),
       .inverse_scale = inverse.defined() ? static_cast<const float*>(inverse.data()) : nullptr});
  mark_stepped(optimizer);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check(scale_.defined(), "GradScaler::update: no loss was scaled yet; want scale(loss) first");
  Tensor found;
  for (const Entry& entry : entries_) {
    if (!entry.found_inf.defined()) continue;
    if (found.defined())
      found.add_(entry.found_inf);
    else
      found = entry.found_inf.clone();
  }
  check(
      found.defined(),
      "GradScaler::update: no inf checks were recorded prior to update; want step() or unscale_() "
      "since the last one");
  kernels::on(scale_.device())
      .update_loss_scale(
          static_cast<float*>(scale_.data()), static_cast<float*>(inverse_.data()),
          static_cast<int32_t*>(tracker_.data()), static_cast<const float*>(found.data()),
          {options_.growth_factor, options_.backoff_factor, options_.growth_interval});
  entries_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check(scale_.defined(), "GradScaler::update: no loss was scaled yet; want scale(loss) first");
  check(std::isfinite(static_cast<float>(new_scale)) && new_scale > 0,
        "GradScaler::update: scale must be finite in f32 and > 0; got {}", new_scale);
  scale_.fill_(new_scale);
  inverse_.fill_(1.0 / static_cast<double>(static_cast<float>(new_scale)));
  entries_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item() : initial_scale_;
}

int64_t GradScaler::growth_tracker() const {
  return tracker_.defined() ? static_cast<int64_t>(tracker_.item()) : initial_tracker_;
}

std::map<std::string, double> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  return {{"scale", get_scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", static_cast<double>(options_.growth_interval)},
          {"_growth_tracker", static_cast<double>(growth_tracker())}};
}

void GradScaler::load_state_dict(const std::map<std::string, double>& state) {
  if (!options_.enabled) return;
  for (const char* key :
       {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"})
    check(state.count(key) == 1, "GradScaler::load_state_dict: {} is missing", key);
  options_.growth_factor = state.at("growth_factor");
  options_.backoff_factor = state.at("backoff_factor");
  options_.growth_interval = static_cast<int64_t>(state.at("growth_interval"));
  initial_scale_ = state.at("scale");
  initial_tracker_ = static_cast<int64_t>(state.at("_growth_tracker"));
  if (!scale_.defined()) return;
  const Device device = scale_.device();
  scale_ = inverse_ = tracker_ = Tensor();
  make_state(device);
}

}  // namespace booster
