// fp64: the whole model in f64, with inputs, outputs, losses, gradients and optimizer state. For
// reference runs, which separate rounding from mistakes: training is a plain loop in double. As in
// fp32, the loss is not scaled and no step is skipped.
#pragma once

#include "mixed_precision/interface/precision.h"

namespace booster {

class FP64 : public Precision {
 public:
  const char* name() const override { return "fp64"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  Tensor cast_input(const Tensor& x) const override;
  Tensor cast_output(const Tensor& y) const override;
};

}  // namespace booster
