// Adam (Kingma and Ba) and AdamW (Loshchilov and Hutter), by the formulas of torch.optim:
//   Adam: g += weight_decay * p              AdamW: p *= 1 - lr * weight_decay
//   m = beta1 * m + (1 - beta1) * g          v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// t counts each parameter's own steps: a parameter without a gradient keeps value, m, v and t.
#pragma once

#include "core/optim/optimizer.h"

#include <utility>

namespace booster {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;                               // >= 0
  double weight_decay = 0;                         // >= 0; added to the gradient
  bool maximize = false;
};

class Adam : public Optimizer {
 public:
  explicit Adam(ParameterGroups groups, const AdamOptions& options = {});
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // decoupled from the gradient
  bool maximize = false;
};

class AdamW : public Optimizer {
 public:
  explicit AdamW(ParameterGroups groups, const AdamWOptions& options = {});
};

std::unique_ptr<UpdateRule> adam_rule();
std::unique_ptr<UpdateRule> adamw_rule();
OptimizerOptions options_of(const AdamOptions& options);
OptimizerOptions options_of(const AdamWOptions& options);

}  // namespace booster
