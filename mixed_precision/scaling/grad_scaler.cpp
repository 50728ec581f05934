#include "kernels/arguments/multi_tensor.h"
#include "mixed_precision/scaling/loss_scale_rules.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include "kernels/host/recording.h"
#include "mixed_precision/scaling/torch_scaler.h"

#include <algorithm>
#include <cmath>

namespace booster {

LossScalePolicy torch_loss_scale_policy(const GradScalerOptions& options) {
  LossScalePolicy policy = loss_scale_preset("torch");
  policy.init = options.init_scale;
  policy.growth = options.growth_factor;
  policy.backoff = options.backoff_factor;
  policy.growth_interval = options.growth_interval;
  return policy;
}

LossScaler torch_loss_scaler(const GradScalerOptions& options) {
  LossScaler scaler(torch_loss_scale_policy(options),
                    {.scale = static_cast<float>(options.init_scale)});
  if (!options.enabled) return scaler;
  check(options.growth_factor > 1, "GradScaler: growth_factor must be > 1; got {}",
        options.growth_factor);
  check(options.backoff_factor < 1, "GradScaler: backoff_factor must be < 1; got {}",
        options.backoff_factor);
  check(options.backoff_factor > 0, "GradScaler: backoff_factor must be > 0; got {}",
        options.backoff_factor);
  check(std::isfinite(options.init_scale) && options.init_scale > 0,
        "GradScaler: init_scale must be finite and > 0; got {}", options.init_scale);
  return scaler;
}

std::map<std::string, double> torch_state(const GradScalerOptions& options,
                                          const LossScaler& scaler) {
  const LossScaleState state = scaler.state();
  return {{"scale", state.scale},
          {"growth_factor", options.growth_factor},
          {"backoff_factor", options.backoff_factor},
          {"growth_interval", static_cast<double>(options.growth_interval)},
          {"_growth_tracker", static_cast<double>(state.good)}};
}

void load_torch_state(const std::map<std::string, double>& state, GradScalerOptions& options,
                      LossScaler& scaler) {
  for (const char* key :
       {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"})
    check(state.count(key) == 1, "GradScaler::load_state_dict: {} is missing", key);
  const double tracker = state.at("_growth_tracker"), interval = state.at("growth_interval");
  for (const double count : {tracker, interval})
    check(std::nearbyint(count) == count && std::fabs(count) < 0x1p53,
          "GradScaler::load_state_dict: a counter must be a whole number; got {}", count);
  scaler.load({.scale = state.at("scale"), .good = static_cast<int64_t>(tracker)});
  options.growth_factor = state.at("growth_factor");
  options.backoff_factor = state.at("backoff_factor");
  options.growth_interval = static_cast<int64_t>(interval);
  scaler.set_policy(torch_loss_scale_policy(options));
}

namespace {

bool has_f16_gradients(const Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.parameters_with_grad(), [](const NamedTensor& parameter) {
    return parameter.tensor.grad().dtype() == DType::f16;
  });
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), scaler_(torch_loss_scaler(options)) {}

Tensor GradScaler::scale(const Tensor& loss) {
  if (options_.enabled) return scaler_.scale(loss).loss;
  check(loss.defined() && is_floating(loss.dtype()),
        "GradScaler::scale: the loss is not floating; want a floating dtype");
  return loss;
}

GradScaler::Entry& GradScaler::entry(const Optimizer& optimizer) {
  for (Entry& entry : entries_)
    if (entry.optimizer == optimizer) return entry;
  entries_.push_back({optimizer, Stage::ready, {}});
  return entries_.back();
}

void GradScaler::check_started(const char* call) const {
  kernels::refuse_to_record("GradScaler", "because the host counts all calls except scale()",
                            "unscale_(), step() and update() after replay()");
  check(scaler_.started(),
        "GradScaler::{}: no loss was scaled yet; want scale(loss) first. For a boosted optimizer, "
        "want booster.backward(loss, optimizer) and no GradScaler",
        call);
}

void GradScaler::begin(const char* call, Optimizer& optimizer) {
  check_started(call);
  check(entry(optimizer).stage != Stage::stepped,
        "GradScaler::{}: called after step() since the last update()", call);
}

void GradScaler::check_gradients(const Parameters& with_grad) const {
  scaler_.check_start();
  for (const auto& [name, parameter] : with_grad)
    check(parameter.grad().dtype() != DType::f16,
          "GradScaler: attempting to unscale FP16 gradients; parameter {} is f16, want f32 "
          "parameters, f32 masters (fp16_naive), or step() without unscale_()",
          name);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  begin("unscale_", optimizer);
  Entry& mine = entry(optimizer);
  check(mine.stage == Stage::ready,
        "GradScaler::unscale_: already called for this optimizer since the last update()");
  const Parameters with_grad = optimizer.parameters_with_grad();
  check_gradients(with_grad);
  if (!with_grad.empty()) mine.found_inf = unscale_gradients(optimizer, scaler_.inverse_tensor());
  mine.stage = Stage::unscaled;
}

// Steps as torch's fused optimizers do: the step itself multiplies by the inverse, in f32.
void GradScaler::step_scaled(Optimizer& optimizer, Entry& mine) {
  scaler_.check_start();
  const Tensor& inverse = scaler_.inverse_tensor();
  mine.found_inf = find_non_finite(optimizer, inverse);
  optimizer.step({.found_inf = static_cast<const float*>(mine.found_inf.data()),
                  .inverse_scale = static_cast<const float*>(inverse.data())});
  unscale_gradients(optimizer, inverse);
}

ScaledStepReport GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return ScaledStepReport();
  }
  begin("step", optimizer);
  const bool unscales = entry(optimizer).stage == Stage::ready;
  check(entry(optimizer).found_inf.defined() ||
            (unscales && !optimizer.parameters_with_grad().empty()),
        "GradScaler::step: no inf checks were recorded for this optimizer: none of its parameters "
        "had a gradient; want a backward pass of a loss that depends on them");
  Entry& mine = entry(optimizer);
  if (unscales && has_f16_gradients(optimizer)) {
    step_scaled(optimizer, mine);
  } else {
    if (unscales) unscale_(optimizer);
    optimizer.step({.found_inf = static_cast<const float*>(mine.found_inf.data())});
  }
  mine.stage = Stage::stepped;
  return ScaledStepReport(mine.found_inf);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_started("update");
  Tensor found;
  for (const Entry& entry : entries_) {
    if (!entry.found_inf.defined()) continue;
    if (found.defined())
      found.add_(entry.found_inf);
    else
      found = untracked::clone(entry.found_inf);
  }
  check(found.defined(),
        "GradScaler::update: no inf checks were recorded prior to update; want step() or "
        "unscale_() before each update");
  scaler_.update(found);
  entries_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_started("update");
  check(is_usable_scale(new_scale),
        "GradScaler::update: scale and inverse must be > 0 and finite in f32; got {}", new_scale);
  scaler_.set_scale(new_scale);
  entries_.clear();
}

void GradScaler::follow_options() { scaler_.set_policy(torch_loss_scale_policy(options_)); }

void GradScaler::set_growth_factor(double factor) {
  options_.growth_factor = factor;
  follow_options();
}
void GradScaler::set_backoff_factor(double factor) {
  options_.backoff_factor = factor;
  follow_options();
}
void GradScaler::set_growth_interval(int64_t steps) {
  options_.growth_interval = steps;
  follow_options();
}

double GradScaler::get_scale() const { return options_.enabled ? scaler_.get_scale() : 1; }

int64_t GradScaler::growth_tracker() const { return scaler_.state().good; }

std::map<std::string, double> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  return torch_state(options_, scaler_);
}

void GradScaler::load_state_dict(const std::map<std::string, double>& state) {
  if (options_.enabled) load_torch_state(state, options_, scaler_);
}

}  // namespace booster
