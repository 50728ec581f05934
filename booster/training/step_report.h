// The result of a step. Values stay on the device until they are read.
#pragma once

#include "core/tensor/tensor.h"
#include "mixed_precision/interface/precision.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class StepReport {
 public:
  // `norm`: norm of the true gradients before clipping; if undefined, grad_norm() computes it.
  StepReport(Verdict verdict, Tensor norm, std::vector<Tensor> gradients,
             std::shared_ptr<const Precision> precision);

  // Returns true if a gradient was not finite, so that nothing was changed. Waits for the device.
  bool skipped() const;
  // Returns the loss scale of this step; 1 in strategies without one.
  double loss_scale() const;
  // Returns a description of what the loss scaler has refused so far and its meaning, or "". A
  // refusal: the scaler keeps a scale because a new one would no longer help, and training may not
  // recover. Waits for the device.
  std::string refusal() const { return precision_->refusal(); }
  // Returns the Euclidean norm of the true gradients before clipping by norm. Costs a pass over
  // them unless they were clipped; call it before the next backward pass.
  double grad_norm() const;

 private:
  Verdict verdict_;
  Tensor norm_;  // undefined: not known yet
  std::vector<Tensor> gradients_;
  std::shared_ptr<const Precision> precision_;
};

}  // namespace booster
