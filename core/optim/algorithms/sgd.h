// Stochastic gradient descent, by the formulas of torch.optim.SGD:
//   g += weight_decay * p
//   m  = g at a parameter's first step, else momentum * m + (1 - dampening) * g
//   p -= lr * (nesterov ? g + momentum * m : m)            (without momentum: lr * g)
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;      // >= 0
  double dampening = 0;     // [0, 1]
  double weight_decay = 0;  // >= 0
  bool nesterov = false;    // needs momentum and no dampening
  bool maximize = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(ParameterGroups groups, const SGDOptions& options = {});
};

std::unique_ptr<UpdateRule> sgd_rule();
OptimizerOptions options_of(const SGDOptions& options);

}  // namespace booster
