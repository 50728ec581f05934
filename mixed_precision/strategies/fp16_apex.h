// fp16_apex: NVIDIA Apex's amp for use with a Booster. O0 is fp32. O1 casts around ops by lists. O2
// casts the model and keeps f32 masters. O3 is f16 throughout. For custom loops without a Booster:
// apex_amp.h.
//
// With one loss and one optimizer, the step unscales and updates the scale. So every backward pass
// before the last of a step behaves as with Apex's delay_unscale. With num_losses > 1 or several
// optimizers, each loss is unscaled when its backward pass ends, and then updates its own scale, as
// in Apex.
#pragma once

#include "mixed_precision/apex/apex_body.h"

#include <memory>

namespace booster {

class FP16Apex : public Precision {
 public:
  // Throws as resolve() does, and for functions that are not ops.
  explicit FP16Apex(const FP16ApexOptions& options = {});
  FP16Apex(const FP16Apex& other);
  ~FP16Apex() override;

  const char* name() const override { return "fp16_apex"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override { return amp_.policy(device); }
  Tensor cast_input(const Tensor& x) const override { return amp_.cast_input(x); }
  Tensor cast_output(const Tensor& y) const override { return amp_.cast_output(y); }
  LossPass begin_loss(const LossStart& start) override;
  void unscale(Optimizer& optimizer) override;
  Tensor gradient_factor(const Optimizer& optimizer) const override;
  Verdict inspect(Optimizer& optimizer) override;
  void abandon(const Optimizer& optimizer) override;
  void update(const Verdict& verdict) override;
  double loss_scale(int loss_id) const override;
  bool seeks_scale() const override;
  std::string refusal() const override;
  void finish_notes() override { amp_.tell_overflows(); }
  PrecisionNumbers state() const override { return amp_.state(); }
  void load(const PrecisionNumbers& state) override { amp_.load(state); }

  ApexBody& amp() { return amp_; }

 private:
  // How losses are scaled; chosen by prepare.
  class Mode;
  class PerStep;
  class PerLoss;

  ApexBody amp_;
  int verbosity_;
  std::unique_ptr<Mode> mode_;
};

}  // namespace booster
