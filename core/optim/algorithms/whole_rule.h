// WholeRule: base of the rules that compute a parameter's update from all of its elements, such as
// Adafactor and Muon. They use functions of tensors on any device, and read nothing from it.
#pragma once

#include "core/optim/update_rule.h"

#include <array>

namespace booster {

// The step is p = p (1 - lr weight_decay) - lr u.
class WholeRule : public UpdateRule {
 public:
  bool needs_whole_parameters() const final { return true; }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override;
  void step(const GroupStep& group) const override;

 protected:
  struct Update {
    Tensor u;
    std::array<Tensor, max_states> state = {};  // new values; undefined: unchanged
  };
  // Returns u and the new state. Tensors have the state's dtype (f32 or f64). `grad` is the true
  // gradient, and t (f64, on the device) counts this step, from 1.
  virtual Update update(const Tensor& value, const Tensor& grad,
                        const std::array<Tensor, max_states>& state, const Tensor& t,
                        const OptimizerOptions& options) const = 0;
};

}  // namespace booster
