// fp16: torch's automatic mixed precision. Parameters stay f32, listed ops run in f16, and a
// dynamic loss scale (by the rules of torch.amp.GradScaler) keeps gradients in range. A step is
// skipped if its gradients are not finite.
#pragma once

#include "mixed_precision/built_in.h"

namespace booster {

class FP16Torch : public ScaledPrecision {
 public:
  // Throws as GradScaler does.
  explicit FP16Torch(GradScalerOptions options = {});

  const char* name() const override { return "fp16"; }
  const OpPolicy* policy(Device device) const override;
  void unscale(Optimizer& optimizer) override;
  Verdict inspect(Optimizer& optimizer) override;
  // Returns the state under torch's keys, as GradScaler::state_dict; empty if it is disabled.
  PrecisionNumbers state() const override;
  void load(const PrecisionNumbers& state) override;

  const GradScalerOptions& options() const { return options_; }
  // Sets the interval; does not check it, as in torch.
  void set_growth_interval(int64_t steps);

 private:
  GradScalerOptions options_;
};

}  // namespace booster
