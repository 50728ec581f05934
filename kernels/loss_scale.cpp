// The update of a loss scale, on the device, so that the host need not wait for the verdict.
#include "kernels/loss_scale.h"

#include "kernels/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

KERNEL_FN bool is_finite(float x) { return x - x == 0.0f; }

// Products of the f32 scale and a factor are formed in f64 and rounded once.
KERNEL_FN float scaled(float scale, double factor) { return float(double(scale) * factor); }

KERNEL_FN void update(float* scale, float* inverse_scale, int32_t* finite_steps,
                      const float* found_inf, const LossScaleRule& rule) {
  if (*found_inf != 0.0f) {  // nan counts as found
    *scale = scaled(*scale, rule.backoff);
    *finite_steps = 0;
  } else if (++*finite_steps == rule.growth_interval) {
    const float grown = scaled(*scale, rule.growth);
    if (is_finite(grown)) *scale = grown;
    *finite_steps = 0;
  }
  *inverse_scale = float(1.0 / double(*scale));
}

}  // namespace

void update_loss_scale(float* scale, float* inverse_scale, int32_t* finite_steps,
                       const float* found_inf, LossScaleRule rule) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    if (first_lane()) update(scale, inverse_scale, finite_steps, found_inf, rule);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
