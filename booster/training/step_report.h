// What a step did. Numbers stay on the device until somebody asks for them.
#pragma once

#include "core/tensor/named_tensor.h"
#include "mixed_precision/interface/precision.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class StepReport {
 public:
  // `norm` of the true gradients before clipping; undefined: worked out when it is asked for.
  StepReport(Verdict verdict, Tensor norm, std::vector<Tensor> gradients,
             std::shared_ptr<const Precision> precision);

  // True if a gradient was not finite, so that nothing was changed. Waits for the device.
  bool skipped() const;
  // The loss scale of this step; 1 in strategies without one.
  double loss_scale() const;
  // What the loss scaler refused, up to now, and what that means; "" if nothing: a scale that would
  // not help any more is kept, and the training may be beyond help. Waits for the device.
  std::string refusal() const { return precision_->refusal(); }
  // Euclidean norm of the true gradients before clipping by norm. Costs a pass over them unless
  // they were clipped; ask before the next backward pass.
  double grad_norm() const;

 private:
  Verdict verdict_;
  Tensor norm_;  // undefined: not known yet
  std::vector<Tensor> gradients_;
  std::shared_ptr<const Precision> precision_;
};

}  // namespace booster
