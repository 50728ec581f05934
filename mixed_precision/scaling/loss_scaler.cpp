#include "mixed_precision/scaling/loss_scaler.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/device_number.h"
#include "core/tensor/tensor_spans.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"
#include "mixed_precision/scaling/loss_scale_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace booster {

namespace {

void check_law(const LossScalePolicy& policy) {
  check(policy.growth > 1, "LossScaler: growth must be > 1; got {}", policy.growth);
  check(policy.backoff > 0 && policy.backoff < 1, "LossScaler: backoff must be in (0, 1); got {}",
        policy.backoff);
  check(policy.minimum >= 0 && policy.maximum >= 0,
        "LossScaler: limits must be >= 0 (0: none); got {} and {}", policy.minimum, policy.maximum);
}

void check_usable(double scale) {
  check(is_usable_scale(scale),
        "loss scale: out of range; got {}, want it and its inverse finite and > 0 in f32", scale);
}

bool f32_holds(double scale) {
  constexpr double most = std::numeric_limits<float>::max();
  return !std::isfinite(scale) ||
         (std::fabs(scale) <= most && static_cast<double>(static_cast<float>(scale)) == scale);
}

}  // namespace

int64_t saved_counter(const std::map<std::string, double>& state, const std::string& key) {
  const auto found = state.find(key);
  check(found != state.end(), "loss scale: the saved {} is missing", key);
  const double value = found->second;
  check(std::nearbyint(value) == value && std::fabs(value) < 0x1p53,
        "loss scale: the saved {} must be a whole number; got {}", key, value);
  return static_cast<int64_t>(value);
}

bool is_usable_scale(double scale) {
  const auto narrow = static_cast<float>(scale), inverse = static_cast<float>(1 / scale);
  return narrow > 0 && std::isfinite(narrow) && inverse > 0 && std::isfinite(inverse);
}

LossScaleState first_state(const LossScalePolicy& policy) {
  check_law(policy);
  const double scale = policy.f64_scale ? policy.init : static_cast<float>(policy.init);
  if (policy.refuses) check_usable(scale);
  return {.scale = scale};
}

LossScaleState next(const LossScalePolicy& policy, LossScaleState state, bool found_inf) {
  const float found = found_inf ? 1 : 0;
  float scale, inverse;
  kernels::on(Device{}).update_loss_scale(&state, &scale, &inverse, &found, policy);
  return state;
}

std::string diagnosis(const LossScaleState& state) {
  switch (state.refused) {
    case ScaleRefusal::none: return "";
    case ScaleRefusal::infinite:
      return fmt::format(
          "loss scale: growth beyond the range of f32 was refused ({} times), and the scale was "
          "kept; gradients that stay finite at such a scale are almost zero",
          state.refusals);
    case ScaleRefusal::collapsed:
      return fmt::format(
          "loss scale: it collapsed: back-off to a scale whose inverse is not finite was refused "
          "({} times), and the scale was kept; the loss or the parameters hold inf or nan, or the "
          "learning rate is too high",
          state.refusals);
    case ScaleRefusal::at_minimum:
      return fmt::format(
          "loss scale: overflow at the smallest allowed scale ({} times); the "
          "loss or the parameters hold inf or nan, or the learning rate is too high",
          state.refusals);
  }
  return "";
}

LossScaler::LossScaler(const LossScalePolicy& policy) : LossScaler(policy, first_state(policy)) {}

std::string LossScaler::diagnosis() const { return booster::diagnosis(state()); }

void LossScaler::check_start() const { check_usable(start_.scale); }

void LossScaler::write(const LossScaleState& state) {
  kernels::device_copy(state_.data(), state_.device(), &state, Device{}, sizeof state);
  // Rounds as update_loss_scale does: infinity beyond f32.
  scale_.fill_(static_cast<float>(state.scale));
  inverse_.fill_(static_cast<float>(1 / state.scale));
  ++generation_;
}

void LossScaler::start(Device device) {
  if (started()) return;
  state_ = empty({sizeof(LossScaleState)}, {DType::u8, device});
  scale_ = empty({}, {DType::f32, device});
  inverse_ = empty({}, {DType::f32, device});
  write(start_);
}

ScaledLoss LossScaler::scale(const Tensor& loss) {
  check(loss.defined() && is_floating(loss.dtype()),
        "LossScaler::scale: the loss is not floating; want a floating dtype");
  start(loss.device());
  const PolicyScope no_casts(nullptr);
  return {mul(loss.dtype() == DType::f64 ? loss : cast(loss, DType::f32), scale_),
          untracked::clone(inverse_)};
}

void LossScaler::update(const Tensor& found_inf) {
  check(started(),
        "LossScaler::update: no loss was scaled yet; want scale(loss), or booster.backward");
  kernels::on(state_.device())
      .update_loss_scale(static_cast<LossScaleState*>(state_.data()),
                         static_cast<float*>(scale_.data()), static_cast<float*>(inverse_.data()),
                         device_float(found_inf), policy_);
  scale_.bump_version();
  inverse_.bump_version();
  ++generation_;
}

void LossScaler::set_scale(double scale) {
  LossScaleState changed = state();
  changed.scale = policy_.f64_scale ? scale : static_cast<float>(scale);
  load(changed);
}

LossScaleState LossScaler::state() const {
  if (!started()) return start_;
  LossScaleState state;
  std::memcpy(&state, state_.to_vector<uint8_t>().data(), sizeof state);
  return state;
}

void LossScaler::load(const LossScaleState& state) {
  if (policy_.refuses) check_usable(state.scale);
  check(policy_.f64_scale || f32_holds(state.scale),
        "loss scale: the saved scale is not f32; got {}", state.scale);
  start_ = state;
  ++generation_;
  if (started()) write(state);
}

std::map<std::string, double> LossScaler::state_dict() const {
  const LossScaleState now = state();
  return {{"scale", now.scale},
          {"good_steps", static_cast<double>(now.good)},
          {"bad_steps", static_cast<double>(now.bad)}};
}

void LossScaler::load_state_dict(const std::map<std::string, double>& state) {
  for (const char* key : {"scale", "good_steps", "bad_steps"})
    check(state.count(key) == 1, "LossScaler::load_state_dict: {} is missing", key);
  load({.scale = state.at("scale"),
        .good = saved_counter(state, "good_steps"),
        .bad = saved_counter(state, "bad_steps")});
}

namespace {

bool has_f64(const std::vector<Tensor>& gradients) {
  return std::any_of(gradients.begin(), gradients.end(),
                     [](const Tensor& gradient) { return gradient.dtype() == DType::f64; });
}

}  // namespace

Tensor find_non_finite(const Optimizer& optimizer, const Tensor& inverse) {
  std::vector<Tensor> gradients = optimizer.gradients();
  // Clipping has just read all gradients. Its f32 norm shows whether they are finite, except for
  // f64 gradients.
  const Tensor norm = optimizer.clipped_norm();
  const float* factor = device_float(inverse);
  if (norm.defined() && !has_f64(gradients)) {
    gradients = {untracked::cast(norm, DType::f32)};
    factor = nullptr;  // the norm includes it
  }
  const Tensor found = zeros({}, {DType::f32, optimizer.device()});
  kernels::on(optimizer.device())
      .multi_check(TensorSpans(gradients), factor, static_cast<float*>(found.data()));
  return found;
}

Tensor unscale_gradients(const Optimizer& optimizer, const Tensor& inverse) {
  const std::vector<Tensor> gradients = optimizer.gradients();
  const Tensor found = zeros({}, {DType::f32, optimizer.device()});
  kernels::on(optimizer.device())
      .multi_unscale(TensorSpans(gradients), device_float(inverse),
                     static_cast<float*>(found.data()));
  for (const Tensor& gradient : gradients) gradient.bump_version();
  return found;
}

}  // namespace booster
