// fp16: torch's automatic mixed precision. Parameters stay f32, listed ops run in f16, and a
// GradScaler keeps gradients in range; a step whose gradients are not finite is skipped.
#pragma once

#include "mixed_precision/precision.h"
#include "mixed_precision/scaling/grad_scaler.h"

namespace booster {

class FP16TorchMixedPrecision : public Precision {
 public:
  explicit FP16TorchMixedPrecision(GradScalerOptions options = {});

  const char* name() const override { return "fp16"; }
  Interaction interaction(const Layout& layout) const override;
  const OpPolicy* policy(Device device) const override;
  Tensor scale(const Tensor& loss) override { return scaler_.scale(loss); }
  void unscale(Optimizer& optimizer) override { scaler_.unscale_(optimizer); }
  Tensor norm_factor(Optimizer& optimizer) override { return scaler_.pending_inverse(optimizer); }
  Verdict inspect(Optimizer& optimizer) override;
  void update(const Verdict& verdict) override;
  std::string refusal() const override { return scaler_.diagnosis(); }
  PrecisionState state() const override { return scaler_.state_dict(); }
  void load(const PrecisionState& state) override { scaler_.load_state_dict(state); }

  GradScaler& scaler() { return scaler_; }

 private:
  GradScaler scaler_;
};

}  // namespace booster
