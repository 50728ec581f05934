// RMSprop (Hinton; centered: Graves, arXiv:1308.0850), by the formulas of torch.optim.RMSprop:
//
//   g += weight_decay * p
//   v = alpha * v + (1 - alpha) * g^2
//   a = alpha * a + (1 - alpha) * g, v' = v - a^2 if centered, else v' = v
//   u = g / (sqrt(v') + eps)
//   m = momentum * m + u, u = m if there is momentum
//   p -= lr * u
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;      // [0, 1]
  double eps = 1e-8;        // >= 0
  double weight_decay = 0;  // >= 0
  double momentum = 0;      // >= 0
  bool centered = false;
  bool maximize = false;
};

class RMSprop : public Optimizer {
 public:
  explicit RMSprop(ParameterGroups groups, const RMSpropOptions& options = {});
};

std::unique_ptr<UpdateRule> rmsprop_rule();
OptimizerOptions options_of(const RMSpropOptions& options);

}  // namespace booster
