// fp16_apex: NVIDIA Apex's amp behind a Booster. O0 is fp32, O1 casts around ops by lists, O2 casts
// the model and keeps f32 masters, O3 is f16 throughout. Options and defaults: apex_properties.h;
// for several losses and optimizers in a loop of one's own: apex_amp.h.
#pragma once

#include "mixed_precision/apex_amp.h"
#include "mixed_precision/precision.h"

namespace booster {

class FP16ApexMixedPrecision : public Precision {
 public:
  // Errors: those of resolve(), and functions that are no ops.
  explicit FP16ApexMixedPrecision(FP16ApexOptions options = {});

  const char* name() const override { return "fp16_apex"; }
  Interaction interaction(const Layout& layout) const override;
  void prepare(const Model& model, Optimizer& optimizer) override;
  const OpPolicy* policy(Device device) const override { return amp_.policy(device); }
  Tensor cast_input(const Tensor& x) const override { return amp_.cast_input(x); }
  Tensor cast_output(const Tensor& y) const override { return amp_.cast_output(y); }
  Tensor scale(const Tensor& loss) override;
  void unscale(Optimizer& optimizer) override;
  Tensor norm_factor(Optimizer& optimizer) override;
  Verdict inspect(Optimizer& optimizer) override;
  void update(const Verdict& verdict) override;
  PrecisionState state() const override { return amp_.state(); }
  void load(const PrecisionState& state) override { amp_.load(state); }

  ApexAmp& amp() { return amp_; }

 private:
  bool scales() const { return amp_.properties().scales(); }

  ApexAmp amp_;
  int verbosity_;
};

}  // namespace booster
