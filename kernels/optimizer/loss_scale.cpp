// The update of a loss scale, on the device, so that the host need not wait for the result.
#include "kernels/arguments/loss_scale.h"

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

KERNEL_FN bool is_finite(float x) { return x - x == 0.0f; }
KERNEL_FN float inverse_of(double scale) { return float(1.0 / scale); }

KERNEL_FN double stored(const LossScalePolicy& policy, double scale) {
  return policy.f64_scale ? scale : double(float(scale));
}
KERNEL_FN double used(const LossScalePolicy& policy, double factor) {
  return policy.f32_factors ? double(float(factor)) : factor;
}

// Returns why a scale is refused. Losses and gradients are multiplied in f32 for any storage type
// of the scale.
KERNEL_FN ScaleRefusal objection(double scale) {
  if (!is_finite(float(scale))) return ScaleRefusal::infinite;
  return scale > 0 && is_finite(inverse_of(scale)) ? ScaleRefusal::none : ScaleRefusal::collapsed;
}

KERNEL_FN void refuse(LossScaleState& state, ScaleRefusal refusal) {
  state.refused = refusal;
  ++state.refusals;
}

// Sets the scale to `candidate`, or keeps it if the candidate would be useless.
KERNEL_FN void take(const LossScalePolicy& policy, LossScaleState& state, double candidate) {
  const double scale = stored(policy, candidate);
  const ScaleRefusal refusal = policy.refuses ? objection(scale) : ScaleRefusal::none;
  if (refusal == ScaleRefusal::none)
    state.scale = scale;
  else
    refuse(state, refusal);
}

KERNEL_FN void after_bad_step(const LossScalePolicy& policy, LossScaleState& state) {
  const int64_t bad = state.bad + 1;
  state.good = 0;
  if (policy.exact_hysteresis ? bad != policy.hysteresis : bad < policy.hysteresis) {
    state.bad = bad;
    return;
  }
  if (policy.ends_at_minimum && state.scale == policy.minimum)
    return refuse(state, ScaleRefusal::at_minimum);
  if (policy.after_backoff == AfterBackoff::forget) state.bad = 0;
  if (policy.after_backoff == AfterBackoff::count) state.bad = bad;
  const double lower = state.scale * used(policy, policy.backoff);
  take(policy, state, lower < policy.minimum ? policy.minimum : lower);
}

// Counts a good step; returns whether the scale must grow now.
KERNEL_FN bool completes_interval(const LossScalePolicy& policy, LossScaleState& state) {
  ++state.good;
  if (policy.free_first_step) {
    const int64_t counted = state.good - 1;
    return counted > 0 && policy.growth_interval > 0 && counted % policy.growth_interval == 0;
  }
  if (state.good != policy.growth_interval) return false;
  state.good = 0;
  return true;
}

KERNEL_FN void after_good_step(const LossScalePolicy& policy, LossScaleState& state) {
  if (policy.refill == Refill::every_finite_step) state.bad = 0;
  if (!completes_interval(policy, state)) return;
  if (policy.refill == Refill::on_growth) state.bad = 0;
  double higher = stored(policy, state.scale * used(policy, policy.growth));
  if (policy.maximum > 0 && higher > policy.maximum) higher = policy.maximum;
  if (policy.growth_guard && !is_finite(float(higher))) return;
  take(policy, state, higher);
}

KERNEL_FN LossScaleState next(const LossScalePolicy& policy, LossScaleState state, bool bad) {
  if (!policy.dynamic)
    state.good += policy.counts_when_static ? 1 : 0;
  else if (bad)
    after_bad_step(policy, state);
  else
    after_good_step(policy, state);
  return state;
}

}  // namespace

void update_loss_scale(LossScaleState* state, float* scale, float* inverse_scale,
                       const float* found_inf, LossScalePolicy policy) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    if (!first_lane()) return;
    *state = next(policy, *state, *found_inf != 0.0f);  // nan counts as an overflow
    *scale = float(state->scale);
    *inverse_scale = inverse_of(state->scale);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
