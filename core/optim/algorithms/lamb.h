// LAMB (You et al., arXiv:1904.00962) in NVIDIA's variant, by the formulas of timm.optim.Lamb:
//   every g is divided by max(1, |all g| / max_grad_norm)
//   m = beta1 * m + (grad_averaging ? 1 - beta1 : 1) * g       v = beta2 * v + (1 - beta2) * g^2
//   u = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + weight_decay * p
//   p -= lr * ratio * u,  ratio = |p| / |u| per parameter, 1 if either is 0
// The ratio is used where weight_decay != 0 or always_adapt; trust_clip caps it at 1. With
// decoupled_decay p is first multiplied by 1 - lr * weight_decay and u has no decay. t counts the
// steps of the parameter group.
#pragma once

#include "core/optim/optimizer.h"

#include <utility>

namespace booster {

struct LAMBOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};  // each in [0, 1)
  double eps = 1e-6;                               // >= 0
  double weight_decay = 0.01;                      // >= 0
  double max_grad_norm = 1;                        // of all gradients together; 0: no clipping
  bool bias_correction = true;
  bool grad_averaging = true;
  bool trust_clip = false;
  bool always_adapt = false;
  bool decoupled_decay = false;
};

class LAMB : public Optimizer {
 public:
  explicit LAMB(ParameterGroups groups, const LAMBOptions& options = {});
};

std::unique_ptr<UpdateRule> lamb_rule();
OptimizerOptions options_of(const LAMBOptions& options);

}  // namespace booster
