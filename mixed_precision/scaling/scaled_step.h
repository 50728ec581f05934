// The scaled part of a training step where gradients may be 16-bit and masters f32: what
// fp16_naive, fp16_apex and fp16_paddle share. The divisor is captured when the loss is scaled, so
// that a scale which grows in between cannot divide by the wrong number. Several optimizers may
// share it; update() comes once all have stepped. Reads nothing from the device. For one thread.
#pragma once

#include "mixed_precision/precision.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <vector>

namespace booster {

class ScaledStep {
 public:
  // Without `widens` 16-bit gradients are unscaled in memory and in their own dtype, where small
  // ones become 0: what Paddle does unless it is told to make master gradients.
  explicit ScaledStep(const LossScalePolicy& policy, bool widens = true)
      : scaler_(policy), widens_(widens) {}

  // loss * scale, in f32 at least.
  Tensor scale(const Tensor& loss);
  // True gradients in memory, those of 16-bit parameters as f32 if it widens; once per step. Error
  // if no loss was scaled since the last one.
  void unscale(Optimizer& optimizer);
  // What gradients in memory must still be multiplied by; undefined once they were unscaled.
  Tensor pending_inverse(const Optimizer& optimizer) const;
  Verdict inspect(Optimizer& optimizer);
  // Grows or backs off and ends the step.
  void update(const Verdict& agreed);

  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

 private:
  // An optimizer whose gradients were unscaled in memory.
  struct Unscaled {
    Optimizer optimizer;
    Tensor found_inf;
  };

  // What was found then; undefined: its gradients are still scaled.
  Tensor found_in(const Optimizer& optimizer) const;

  LossScaler scaler_;
  bool widens_;
  Tensor inverse_;  // of the scale that this step's losses were multiplied by
  std::vector<Unscaled> unscaled_;
};

}  // namespace booster
