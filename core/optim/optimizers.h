// The optimizers: SGD, Adam, AdamW, RMSprop, LAMB and others; and averages of their parameters.
// Each is an Optimizer (optimizer.h), which has the calls of a training loop; here are the options
// and the formulas. Names and defaults are PyTorch's, and timm's for LAMB. Learning rates and
// decays are per step. The constructors throw for an option out of range, and for what Optimizer's
// constructor refuses. One optimizer is for one thread at a time.
#pragma once

#include "core/optim/optimizer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// --- The other optimizers of torch.optim that change each element by itself. t counts from 1; with
// decoupled_weight_decay p is first multiplied by 1 - lr * weight_decay, else g += weight_decay *
// p.

// u and v average squared steps and gradients; p -= lr sqrt((u + eps) / (v + eps)) g
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(ParameterGroups groups, const AdadeltaOptions& options = {});
};

// v, from initial_accumulator_value, sums g^2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps)
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(ParameterGroups groups, const AdagradOptions& options = {});
};

// Adam with u = max(beta2 u, |g| + eps) in place of the root of v.
struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
class Adamax : public Optimizer {
 public:
  explicit Adamax(ParameterGroups groups, const AdamaxOptions& options = {});
};

// eta = lr / (1 + lambd lr (t - 1))^alpha; p -= eta (g + lambd p). Its state `ax` is the average of
// p since step t0.
struct ASGDOptions {
  double lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  bool maximize = false;
};
class ASGD : public Optimizer {
 public:
  explicit ASGD(ParameterGroups groups, const ASGDOptions& options = {});
};

// Adam with Nesterov's momentum (Dozat, 2016).
struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false;
};
class NAdam : public Optimizer {
 public:
  explicit NAdam(ParameterGroups groups, const NAdamOptions& options = {});
};

// Adam, rectified while v is young (Liu et al., arXiv:1908.03265).
struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false;
};
class RAdam : public Optimizer {
 public:
  explicit RAdam(ParameterGroups groups, const RAdamOptions& options = {});
};

// Each element's step grows by etas.second while the sign of g stays, else shrinks by etas.first.
struct RpropOptions {
  double lr = 1e-2;  // the first step
  std::pair<double, double> etas = {0.5, 1.2};
  std::pair<double, double> step_sizes = {1e-6, 50};
  bool maximize = false;
};
class Rprop : public Optimizer {
 public:
  explicit Rprop(ParameterGroups groups, const RpropOptions& options = {});
};

// --- An optimizer of your own, as a formula on tensors (examples/cookbook/lion.cpp). It works with
// every strategy, plugin and checkpoint. Each operation of the formula is a pass over memory.

// One parameter in a step, or the part of it that this rank updates, of any shape. Tensors are f32
// (f64 for f64 parameters), off the tape.
struct FormulaStep {
  Tensor value;                     // the formula replaces this one, and the states
  Tensor gradient;                  // true and clipped
  std::vector<Tensor> state;        // 0 before the first step
  const OptimizerOptions& options;  // of the parameter's group
  Tensor count;                     // of the parameter's steps, with this one; f64, no dimensions
};
struct OptimizerFormula {
  std::string name;                      // in messages and checkpoints
  std::vector<std::string> states = {};  // at most three
  // Must treat each element by itself.
  std::function<void(FormulaStep& step)> update = {};
};
// Throws for a formula without a name or function, and for options without "lr".
Optimizer optimizer_of(OptimizerFormula formula, ParameterGroups groups,
                       const GroupOptions& options);

// --- An exponential moving average of an optimizer's parameters, which often evaluates better than
// the parameters themselves.
//
//   ParameterAverage average(optimizer, {.decay = 0.9998});
//   for (...) { ...; average.update(opt.step(), ++step); }  // no update if the step was skipped
//   { AveragedWeights evaluation(average);  accuracy = evaluate(net); }
//
// average = decay * average + (1 - decay) * value, in f32 (f64 for f64 parameters). It reads the
// parameter's f32 master if there is one, since 16 bits would lose small differences. Boost the
// model first, so that the masters exist.
//
// Averages are part of the optimizer's state (NAME.average) and of checkpoints. They cover this
// rank's part of each parameter. Resuming a checkpoint without them restarts the averages from its
// parameters. An optimizer has one average. Use it on the optimizer's thread.

// All options except decay have the defaults and meaning of timm's ModelEmaV3.
struct ParameterAverageOptions {
  double decay = 0.999;
  // In step t, counted from 1 after update_after_step, the decay is at most
  // 1 - (1 + t / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
  double min_decay = 0;           // lower bound in the warm-up
  int64_t update_after_step = 0;  // up to this step the average equals the parameters
};

class ParameterAverage {
 public:
  // Starts from the current parameters. Replaces an existing average of the optimizer. Throws for
  // an option out of range.
  explicit ParameterAverage(const Optimizer& optimizer, ParameterAverageOptions options = {});

  // Updates the average. `step` counts the optimizer's steps so far, including this one. Without
  // it, the decay is the option's value.
  void update(std::optional<int64_t> step = {});
  // The same, unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void update(const Report& report, std::optional<int64_t> step = {}) {
    if (!report.skipped()) update(step);
  }

  // Returns the decay of an update in this step; 0 in the first.
  double decay(std::optional<int64_t> step = {}) const;
  // Returns this rank's owned part of each average, by parameter; shares memory with the optimizer.
  std::map<std::string, Tensor> state_dict() const;
  // Copies all averages in, or none. An error names the parameter that is missing, unknown or of
  // another shape.
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  friend class AveragedWeights;
  Optimizer optimizer_;
  ParameterAverageOptions options_;
};

// Makes the model compute with the averages while it lives, and then restores the parameters bit
// for bit. Do not step meanwhile. If parameters are sharded over ranks, `exchange` sends this
// rank's part to the others. All ranks then construct and destroy it together: see Booster's
// averaged_weights() in booster/training/boosted.h.
class AveragedWeights {
 public:
  explicit AveragedWeights(const ParameterAverage& average, std::function<void()> exchange = {});
  // Restores the parameters. Skips the exchange while an exception unwinds, since other ranks may
  // not take part.
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void share_written();

  Optimizer optimizer_;
  std::function<void()> exchange_;
  std::vector<Tensor> before_;
  int errors_before_;
};

}  // namespace booster
