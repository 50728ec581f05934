// fp16: torch's automatic mixed precision. Parameters stay f32, listed ops run in f16, and a
// dynamic loss scale (by the rules of torch.amp.GradScaler) keeps gradients in range. A step is
// skipped if its gradients are not finite.
#pragma once

#include "mixed_precision/interface/precision.h"
#include "mixed_precision/scaling/grad_scaler.h"
#include "mixed_precision/scaling/scaled_step.h"

namespace booster {

class FP16Torch : public Precision {
 public:
  // Throws as GradScaler does.
  explicit FP16Torch(GradScalerOptions options = {});

  const char* name() const override { return "fp16"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override;
  void begin_loss(const ScaleLossOptions& options, const Optimizers& optimizers) override;
  Tensor scale(const Tensor& loss) override;
  void unscale(Optimizer& optimizer) override;
  Tensor gradient_factor(const Optimizer& optimizer) const override;
  Verdict inspect(Optimizer& optimizer) override;
  void abandon(const Optimizer& optimizer) override { step_.abandon(optimizer); }
  void update(const Verdict& verdict) override;
  double loss_scale(int loss_id) const override;
  bool seeks_scale() const override { return options_.enabled; }
  std::string refusal() const override { return step_.scaler().diagnosis(); }
  // torch's keys, as in GradScaler::state_dict; empty if it is disabled.
  PrecisionState state() const override;
  void load(const PrecisionState& state) override;

  const GradScalerOptions& options() const { return options_; }
  // Not checked, as in torch.
  void set_growth_interval(int64_t steps);

 private:
  GradScalerOptions options_;
  ScaledStep step_;
};

}  // namespace booster
