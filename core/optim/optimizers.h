// The optimizers: SGD, Adam, AdamW, RMSprop, LAMB and others; and averages of their parameters.
// Each is an Optimizer (optimizer.h), which has the calls of a training loop; here are the options
// and the formulas. Names and defaults are PyTorch's, and timm's for LAMB. Learning rates and
// decays are per step. The constructors throw for an option out of range, and for what Optimizer's
// constructor refuses. One optimizer is for one thread at a time.
#pragma once

#include "core/optim/optimizer.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// clang-format off
// --- Stochastic gradient descent, by the formulas of torch.optim.SGD:
//   g += weight_decay * p
//   m  = g at a parameter's first step, else momentum * m + (1 - dampening) * g
//   p -= lr * (nesterov ? g + momentum * m : m)            (without momentum: lr * g)
struct SGDOptions {
  double lr = 1e-3, momentum = 0;           // >= 0
  double dampening = 0, weight_decay = 0;   // [0, 1]; >= 0
  bool nesterov = false, maximize = false;  // nesterov needs momentum and no dampening
};
struct SGD : Optimizer { explicit SGD(ParameterGroups, const SGDOptions& = {}); };

// --- Adam (Kingma and Ba) and AdamW (Loshchilov and Hutter), by the formulas of torch.optim:
//   Adam: g += weight_decay * p              AdamW: p *= 1 - lr * weight_decay
//   m = beta1 * m + (1 - beta1) * g          v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// t counts each parameter's own steps: a parameter without a gradient keeps value, m, v and t.
struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8, weight_decay = 0;             // >= 0; decay is added to the gradient
  bool maximize = false;
};
struct Adam : Optimizer { explicit Adam(ParameterGroups, const AdamOptions& = {}); };

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 1e-2;  // decoupled from the gradient
  bool maximize = false;
};
struct AdamW : Optimizer { explicit AdamW(ParameterGroups, const AdamWOptions& = {}); };

// --- RMSprop (Hinton; centered: Graves, arXiv:1308.0850), by the formulas of torch.optim.RMSprop:
//   g += weight_decay * p
//   v = alpha * v + (1 - alpha) * g^2
//   a = alpha * a + (1 - alpha) * g, v' = v - a^2 if centered, else v' = v
//   u = g / (sqrt(v') + eps)
//   m = momentum * m + u, u = m if there is momentum
//   p -= lr * u
struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99;                      // alpha in [0, 1]
  double eps = 1e-8, weight_decay = 0, momentum = 0;   // >= 0
  bool centered = false, maximize = false;
};
struct RMSprop : Optimizer { explicit RMSprop(ParameterGroups, const RMSpropOptions& = {}); };

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
  double eps = 1e-6, weight_decay = 0.01;          // >= 0
  double max_grad_norm = 1;                        // of all gradients together; 0: no clipping
  bool bias_correction = true, grad_averaging = true;
  bool trust_clip = false, always_adapt = false, decoupled_decay = false;
};
struct LAMB : Optimizer { explicit LAMB(ParameterGroups, const LAMBOptions& = {}); };

// --- The other optimizers of torch.optim that change each element by itself. t counts from 1; with
// decoupled_weight_decay p is first multiplied by 1 - lr * weight_decay, else g += weight_decay *
// p.

// u and v average squared steps and gradients; p -= lr sqrt((u + eps) / (v + eps)) g
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
struct Adadelta : Optimizer { explicit Adadelta(ParameterGroups, const AdadeltaOptions& = {}); };

// v, from initial_accumulator_value, sums g^2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps)
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
struct Adagrad : Optimizer { explicit Adagrad(ParameterGroups, const AdagradOptions& = {}); };

// Adam with u = max(beta2 u, |g| + eps) in place of the root of v.
struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
struct Adamax : Optimizer { explicit Adamax(ParameterGroups, const AdamaxOptions& = {}); };

// eta = lr / (1 + lambd lr (t - 1))^alpha; p -= eta (g + lambd p). Its state `ax` is the average of
// p since step t0.
struct ASGDOptions {
  double lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  bool maximize = false;
};
struct ASGD : Optimizer { explicit ASGD(ParameterGroups, const ASGDOptions& = {}); };

// Adam with Nesterov's momentum (Dozat, 2016).
struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false;
};
struct NAdam : Optimizer { explicit NAdam(ParameterGroups, const NAdamOptions& = {}); };

// Adam, rectified while v is young (Liu et al., arXiv:1908.03265).
struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false;
};
struct RAdam : Optimizer { explicit RAdam(ParameterGroups, const RAdamOptions& = {}); };

// Each element's step grows by etas.second while the sign of g stays, else shrinks by etas.first.
struct RpropOptions {
  double lr = 1e-2;  // the first step
  std::pair<double, double> etas = {0.5, 1.2};
  std::pair<double, double> step_sizes = {1e-6, 50};
  bool maximize = false;
};
struct Rprop : Optimizer { explicit Rprop(ParameterGroups, const RpropOptions& = {}); };

// --- Optimizers that compute with whole parameters. They train with torch_ddp and pipelines. ZeRO,
// fsdp and tensor parallelism refuse them, because there ranks share a parameter's elements.

// Adafactor (Shazeer and Stern, arXiv:1804.04235), by the formulas of torch.optim.Adafactor, with
// b = t^beta2_decay and means along rows and columns of the last two dimensions:
//   R += b (mean over columns of g^2 - R)     C += b (mean over rows of g^2 - C)
//   V  = R C / max(mean R, eps1)              vectors: V += b (g^2 - V)
//   u  = g / max(sqrt(V), eps1)
//   p  = (1 - lr weight_decay) p - max(eps2, rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d)
struct AdafactorOptions {
  double lr = 1e-2, beta2_decay = -0.8;
  std::pair<double, double> eps = {0, 1e-3};  // eps1: 0 is the spacing of the dtype at 1
  double d = 1, weight_decay = 0;
  bool maximize = false;
};
struct Adafactor : Optimizer { explicit Adafactor(ParameterGroups, const AdafactorOptions& = {}); };

// Muon (Jordan et al., 2024), by the formulas of torch.optim.Muon, for matrices. AdamW updates the
// groups with the option adamw = 1: vectors, and usually embeddings and the head.
//   m += (1 - momentum) (g - m),  p = (1 - lr weight_decay) p - lr s O
// O has m's (nesterov: m blended with g) singular vectors and singular values near 1, by ns_steps
// Newton-Schulz iterations; s is max(1, rows / columns)^(1/2), or 0.2 max(rows, columns)^(1/2) for
// "match_rms_adamw", or (rows / columns)^(1/2) for "spectral_unclamped".
struct MuonOptions {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  std::string adjust_lr_fn = "original";
  std::pair<double, double> betas = {0.9, 0.95};  // of AdamW
  double adamw_eps = 1e-8;
};
struct Muon : Optimizer { explicit Muon(ParameterGroups, const MuonOptions& = {}); };

// L-BFGS, by torch.optim.LBFGS: step(closure) calls the closure up to max_eval times, and moves up
// to max_iter times. One group of parameters. No Booster takes it, because a strategy and a plugin
// know steps of one evaluation only. A closure that throws changes neither parameters nor state.
struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20, max_eval = 0;  // 0: max_iter 5 / 4
  double tolerance_grad = 1e-7, tolerance_change = 1e-9;
  int64_t history_size = 100;
  std::string line_search_fn = "";  // or "strong_wolfe"
  bool maximize = false;
};
struct LBFGS : Optimizer { explicit LBFGS(ParameterGroups, const LBFGSOptions& = {}); };

// clang-format on

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
  double warmup_gamma = 1, warmup_power = 2.0 / 3;
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
