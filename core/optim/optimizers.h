// The optimizers: SGD, Adam, AdamW, RMSprop and LAMB. Each is an Optimizer (optimizer.h), which has
// the calls of a training loop. This header has the options and the formulas. Names and defaults
// are PyTorch's, and timm's for LAMB. Learning rates and decays are per step. The constructors
// throw for an option out of range, and throw the errors of Optimizer's constructor. One optimizer
// is for one thread at a time.
#pragma once

#include "core/optim/optimizer.h"

#include <utility>

namespace booster {

// --- Stochastic gradient descent, by the formulas of torch.optim.SGD:
//   g += weight_decay * p
//   m  = g at a parameter's first step, else momentum * m + (1 - dampening) * g
//   p -= lr * (nesterov ? g + momentum * m : m)            (without momentum: lr * g)

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

// --- Adam (Kingma and Ba) and AdamW (Loshchilov and Hutter), by the formulas of torch.optim:
//   Adam: g += weight_decay * p              AdamW: p *= 1 - lr * weight_decay
//   m = beta1 * m + (1 - beta1) * g          v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// t counts each parameter's own steps: a parameter without a gradient keeps value, m, v and t.

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

// --- RMSprop (Hinton; centered: Graves, arXiv:1308.0850), by the formulas of torch.optim.RMSprop:
//
//   g += weight_decay * p
//   v = alpha * v + (1 - alpha) * g^2
//   a = alpha * a + (1 - alpha) * g, v' = v - a^2 if centered, else v' = v
//   u = g / (sqrt(v') + eps)
//   m = momentum * m + u, u = m if there is momentum
//   p -= lr * u

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

// --- LAMB (You et al., arXiv:1904.00962) in NVIDIA's variant, by the formulas of timm.optim.Lamb:
//   every g is divided by max(1, |all g| / max_grad_norm)
//   m = beta1 * m + (grad_averaging ? 1 - beta1 : 1) * g       v = beta2 * v + (1 - beta2) * g^2
//   u = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + weight_decay * p
//   p -= lr * ratio * u,  ratio = |p| / |u| per parameter, 1 if either is 0
// The ratio applies if weight_decay != 0 or always_adapt; trust_clip limits it to 1. With
// decoupled_decay p is first multiplied by 1 - lr * weight_decay, and u has no decay. t counts the
// steps of the parameter group.

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
