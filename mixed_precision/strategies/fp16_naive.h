// fp16_naive: the whole model in f16 with f32 masters, after Colossal-AI. Every op computes on f16
// tensors; outputs, the loss and its scaling are f32. The loss scale backs off after `hysteresis`
// overflows since its last growth.
//
// Gradients are divided by the scale that the loss was multiplied by. Colossal-AI's own optimizer
// divides by the doubled scale in steps in which the scale grows.
#pragma once

#include "mixed_precision/built_in.h"

namespace booster {

class FP16Naive : public ScaledPrecision {
 public:
  // Throws for an option out of range, or a first scale outside the limits.
  explicit FP16Naive(FP16NaiveOptions options = {});

  const char* name() const override { return "fp16_naive"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  Tensor cast_input(const Tensor& x) const override;
  Tensor cast_output(const Tensor& y) const override;
  Verdict inspect(Optimizer& optimizer) override;
  void update(const Verdict& verdict) override;
  PrecisionNumbers state() const override { return scaler().state_dict(); }
  void load(const PrecisionNumbers& state) override { scaler().load_state_dict(state); }

 private:
  FP16NaiveOptions options_;
};

}  // namespace booster
