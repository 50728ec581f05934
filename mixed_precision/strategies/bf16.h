// bf16 in two styles. It has f32's range, so the loss is not scaled. By default a step is skipped
// if its gradients are not finite.
//
//   autocast   torch's: parameters stay f32, listed ops run in bf16
//   cast       the model and its inputs are bf16, except batch normalisation, whose statistics
//              need f32. Steps update f32 masters, or the bf16 weights themselves:
//              BF16({.style = "cast", .master_weights = false, .update = "kahan"})
//
// Without masters, `update` sets the rounding of new weights. "nearest" loses updates below half a
// unit in the last place. "stochastic" is exact on average. "kahan" keeps the lost part (2 bytes
// per parameter) for the next step.
#pragma once

#include "mixed_precision/built_in.h"
#include "mixed_precision/scaling/overflow_memory.h"

#include <array>

namespace booster {

class BF16 : public Precision {
 public:
  // Throws for an unknown style or rounding, incompatible options, or a seed outside 32 bits.
  explicit BF16(BF16Options options = {});

  const char* name() const override { return "bf16"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override;
  Tensor cast_input(const Tensor& x) const override;
  // Notes overflows. Gradients are already true, but the caller may make infinities finite.
  void unscale(Optimizer& optimizer) override { overflows_.look(optimizer); }
  Tensor norm_factor(Optimizer&) override { return {}; }
  Verdict inspect(Optimizer& optimizer) override { return overflows_.inspect(optimizer); }
  void abandon(const Optimizer& optimizer) override { overflows_.forget(optimizer); }

 private:
  bool casts() const { return options_.style == "cast"; }

  BF16Options options_;
  UpdateRounding rounding_;
  std::array<OpPolicy, 2> policies_;  // for CPUs and for GPUs
  OverflowMemory overflows_;
};

}  // namespace booster
