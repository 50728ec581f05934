// What a step did. Numbers stay on the device until somebody asks for them.
#pragma once

#include "core/tensor/named_tensor.h"
#include "mixed_precision/precision.h"

namespace booster {

class StepReport {
 public:
  StepReport(Verdict verdict, double clipped_norm, std::vector<Tensor> gradients);

  // True if a gradient was not finite, so that nothing was changed. Waits for the device.
  bool skipped() const;
  // The loss scale of this step; 1 in strategies without one.
  double loss_scale() const;
  // Euclidean norm of the true gradients before clipping. Costs a pass over them unless they were
  // clipped; ask before the next backward pass.
  double grad_norm() const;

 private:
  Verdict verdict_;
  double clipped_norm_;  // negative: not clipped
  std::vector<Tensor> gradients_;
};

}  // namespace booster
