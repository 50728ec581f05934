// Learning-rate schedulers. A schedule is a formula lr[t], the rate in force during optimizer step
// t (from 0). Constructing a scheduler sets lr[0]. Each step(), called after the optimizer's, moves
// to the next t. `base` is a group's rate when the scheduler was made.
//   auto scheduler = LinearWarmupLR(optimizer, {.warmup_steps = 50, .total_steps = steps});
//   optimizer.step();  scheduler.step();
//
// One schedule depends on a metric instead, ReduceLROnPlateau: `scheduler.step(validation_loss)`.
//
// Schedulers are handles: copies share one count. Formulas are closed forms. Schedules with
// PyTorch's names have PyTorch's rates, within rounding. A rate that the program sets lasts until
// the next step, which sets the schedule's rate. (Some of PyTorch's schedules continue from the
// current rate.)
//
// The schedule also covers groups that are added to the optimizer later. Before the first step() a
// group's rate is its base, as for the first groups. After it, the group starts at its own rate and
// continues in proportion to the others, as in PyTorch. Its base is then the one for which the
// schedule gives that rate. The next step() throws if there is none: the schedule's rate no longer
// depends on the base, or it has one function per group.
#pragma once

#include "core/optim/optimizer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace booster {

// A schedule's options by name, as text: "total_steps", "400".
using ScheduleSettings = std::map<std::string, std::string>;
// Saved state of a schedule that depends on a metric: "bad_steps", 3.
using ScheduleMemory = std::map<std::string, double>;

class Schedule {
 public:
  virtual ~Schedule() = default;
  // Returns the name in messages and saved state, such as "linear_warmup".
  virtual const char* name() const = 0;
  virtual double lr(int64_t t, double base, int group) const = 0;
  // Returns false if a group's rate does not depend on its base, as with one-cycle and plateau.
  virtual bool uses_base() const { return true; }
  // Returns its options, so that a resumed training can find changed ones.
  virtual ScheduleSettings settings() const { return {}; }
  // Applies other changes of a step, such as one-cycle's momentum.
  virtual void apply_more(Optimizer&, int64_t) const {}

  // --- for a schedule that depends on a metric and remembers earlier values
  virtual bool wants_metric() const { return false; }
  // Takes this step's metric, with the current rates by group.
  virtual void observe(double /*metric*/, const std::vector<double>& /*rates*/) {}
  // Takes the rate of a group that was added.
  virtual void add_group(double /*rate*/) {}
  virtual ScheduleMemory memory() const { return {}; }
  // Takes over the memory. Throws, and changes nothing, if it is not from this schedule with this
  // number of groups.
  virtual void remember(const ScheduleMemory&, size_t /*groups*/) {}
};

struct LRSchedulerState {
  std::string name;
  int64_t step = 0;
  std::vector<double> base_lrs;    // by parameter group
  ScheduleSettings settings = {};  // for information: the scheduler uses its own
  ScheduleMemory memory = {};
  // The rates that the program gave, by group. They differ from base_lrs for groups added after the
  // first step.
  std::vector<double> given_lrs = {};
};

class LRScheduler {
 public:
  LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule);

  // Sets the next step's rate. Throws for a schedule that needs a metric.
  void step();
  // Does the same for a schedule that needs a metric; throws for all others.
  void step(double metric);
  // Does as step(), unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void step(const Report& report) {
    if (!report.skipped()) step();
  }

  // Returns the current rate.
  double lr(int group = 0) const;
  int64_t step_count() const;
  const char* name() const;
  const Schedule& schedule() const;
  // Returns true if it sets the rates of this optimizer.
  bool drives(const Optimizer& optimizer) const;

  LRSchedulerState state_dict() const;
  // Loads the state. An error names the mismatch, and changes nothing.
  void load_state_dict(const LRSchedulerState& state);

 protected:
  // Uses these base rates, by group, instead of the optimizer's current ones.
  LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule,
              std::vector<double> base_lrs);

 private:
  struct Body;
  Handle<Body, "lr_scheduler"> body_;
};

// clang-format off
// Warm-up base (t + 1) / (warmup_steps + 1), then linear to 0 at total_steps: base (total_steps -
// t) / (total_steps - warmup_steps). 0 after that. Colossal-AI's LinearWarmupLR.
struct LinearWarmupOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;   // >= 1
};
struct LinearWarmupLR : LRScheduler { LinearWarmupLR(Optimizer, const LinearWarmupOptions&); };

// eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2; past T_max it rises again. PyTorch's.
struct CosineAnnealingOptions {
  int64_t T_max = 0;  // >= 1
  double eta_min = 0;
};
struct CosineAnnealingLR : LRScheduler {
  CosineAnnealingLR(Optimizer optimizer, const CosineAnnealingOptions& options);
};

// Warm-up base (t + 1) / warmup_steps, then half a cosine over the remaining steps:
// eta_min + (base - eta_min) (1 + cos(pi s)) / 2, s = (t - warmup_steps) / (total_steps -
// warmup_steps), and eta_min from total_steps on. Colossal-AI's CosineAnnealingWarmupLR.
struct CosineAnnealingWarmupOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;   // >= 1
  double eta_min = 0;
};
struct CosineAnnealingWarmupLR : LRScheduler {
  CosineAnnealingWarmupLR(Optimizer optimizer, const CosineAnnealingWarmupOptions& options);
};

// end_lr + (base - end_lr) (1 - min(t, total_steps) / total_steps)^power. With end_lr 0 PyTorch's.
struct PolynomialOptions {
  int64_t total_steps = 0;  // >= 1
  double power = 1, end_lr = 0;
};
struct PolynomialLR : LRScheduler { PolynomialLR(Optimizer, const PolynomialOptions&); };

// base gamma^floor(t / step_size). PyTorch's.
struct StepOptions {
  int64_t step_size = 0;  // >= 1
  double gamma = 0.1;
};
struct StepLR : LRScheduler { StepLR(Optimizer, const StepOptions&); };

// base gamma^(number of milestones <= t); repeated milestones count repeatedly. PyTorch's.
struct MultiStepOptions {
  std::vector<int64_t> milestones = {};  // >= 0, in any order
  double gamma = 0.1;
};
struct MultiStepLR : LRScheduler { MultiStepLR(Optimizer, const MultiStepOptions&); };

// base gamma^t. PyTorch's.
struct ExponentialOptions {
  double gamma = 1;
};
struct ExponentialLR : LRScheduler { ExponentialLR(Optimizer, const ExponentialOptions&); };

// base factor while t < total_steps, then base. PyTorch's, but constant for the whole training by
// default.
struct ConstantOptions {
  double factor = 1;
  int64_t total_steps = 0;
};
struct ConstantLR : LRScheduler { explicit ConstantLR(Optimizer, const ConstantOptions& = {}); };

// base (start_factor + (end_factor - start_factor) min(t, total_steps) / total_steps). PyTorch's.
struct LinearLROptions {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_steps = 5;  // >= 1
};
struct LinearLR : LRScheduler { LinearLR(Optimizer, const LinearLROptions&); };

// PyTorch's OneCycleLR (Smith and Topin). The rate rises from max_lr / div_factor to max_lr during
// the first pct_start of the steps, then falls to max_lr / div_factor / final_div_factor. With
// three_phase it first falls for as long as it rose, then further to the end. Momentum, or beta1,
// moves in the opposite direction between base_momentum and max_momentum. Throws after total_steps.
// After the last step, PyTorch's linear strategy gives one value below 0; here it is 0.
struct OneCycleOptions {
  double max_lr = 0;
  int64_t total_steps = 0;              // >= 1
  double pct_start = 0.3;               // [0, 1]
  std::string anneal_strategy = "cos";  // or "linear"
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
struct OneCycleLR : LRScheduler { OneCycleLR(Optimizer, const OneCycleOptions&); };

// Rises from base_lr to max_lr and falls back, again and again; momentum, or beta1, moves in the
// opposite direction. Each cycle of mode "triangular2" has half the height of the one before; at
// step t, "exp_range" has gamma^t of the height. PyTorch's (Smith, arXiv:1506.01186).
struct CyclicOptions {
  double base_lr = 0, max_lr = 0;
  int64_t step_size_up = 2000, step_size_down = 0;  // steps; down 0: as up
  std::string mode = "triangular";                  // or "triangular2", "exp_range"
  double gamma = 1;
  bool cycle_momentum = true;
  double base_momentum = 0.8, max_momentum = 0.9;
};
struct CyclicLR : LRScheduler { CyclicLR(Optimizer, const CyclicOptions&); };

// CosineAnnealingLR that starts again after T_0 steps, then T_0 T_mult, T_0 T_mult^2 ... PyTorch's.
struct CosineWarmRestartsOptions {
  int64_t T_0 = 0, T_mult = 1;  // >= 1
  double eta_min = 0;
};
struct CosineAnnealingWarmRestarts : LRScheduler {
  CosineAnnealingWarmRestarts(Optimizer optimizer, const CosineWarmRestartsOptions& options);
};

// Several schedules in sequence: schedulers[i] begins at milestones[i - 1], where its own t is 0.
// PyTorch's. Make all for the same optimizer, in order; all use the first one's `base`. Throws for
// another optimizer, for milestones that do not rise or are not one fewer than the schedulers, and
// for a schedule that needs a metric.
struct SequentialLR : LRScheduler {
  SequentialLR(Optimizer optimizer, const std::vector<LRScheduler>& schedulers,
               const std::vector<int64_t>& milestones);
};

// All schedules at once: base times the factor of each. Made as SequentialLR. Throws for a schedule
// whose rate is not a multiple of its base (eta_min above 0, one-cycle). PyTorch's.
struct ChainedScheduler : LRScheduler {
  ChainedScheduler(Optimizer optimizer, const std::vector<LRScheduler>& schedulers);
};

// Multiplies the rates by `factor` when the metric passed to step() has not improved for more than
// `patience` steps. The next `cooldown` steps do not count. An improvement over the best so far is:
//   mode "min": metric < best (1 - threshold), or < best - threshold if threshold_mode is "abs"
//   mode "max": metric > best (1 + threshold), or > best + threshold if threshold_mode is "abs"
// A rate stays if it would change by no more than eps. PyTorch's.
struct ReduceLROnPlateauOptions {
  std::string mode = "min";  // or "max"
  double factor = 0.1;       // [0, 1)
  int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";  // or "abs"
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
struct ReduceLROnPlateau : LRScheduler {
  explicit ReduceLROnPlateau(Optimizer optimizer, const ReduceLROnPlateauOptions& options = {});
};

// base f(t), with one f for all groups or one for each. PyTorch's. With one for each, adding a
// group later throws.
using LRFactor = std::function<double(int64_t t)>;
struct LambdaLR : LRScheduler {
  LambdaLR(Optimizer optimizer, LRFactor factor);
  LambdaLR(Optimizer optimizer, std::vector<LRFactor> factors);
};
// base f(1) f(2) ... f(t), for all groups. PyTorch's.
struct MultiplicativeLR : LRScheduler { MultiplicativeLR(Optimizer, LRFactor); };

// --- Schedules with a warm-up, by the formulae of Hugging Face's transformers and of timm. As in
// lr_scheduler.h, `base` is a group's rate when the scheduler was made, and t counts steps from 0.

// Warm-up base t / warmup_steps, then linearly to 0 at total_steps. Hugging Face's
// get_linear_schedule_with_warmup.
using LinearScheduleOptions = LinearWarmupOptions;
struct LinearScheduleWithWarmup : LRScheduler {
  LinearScheduleWithWarmup(Optimizer optimizer, const LinearScheduleOptions& options);
};

// The same warm-up, then base max(0, (1 + cos(2 pi num_cycles s)) / 2), s = (t - warmup_steps) /
// (total_steps - warmup_steps). Hugging Face's get_cosine_schedule_with_warmup.
struct CosineScheduleOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;   // >= 1
  double num_cycles = 0.5;
};
struct CosineScheduleWithWarmup : LRScheduler {
  CosineScheduleWithWarmup(Optimizer optimizer, const CosineScheduleOptions& options);
};

// timm's CosineLRScheduler. The warm-up rises linearly from warmup_lr_init to base. Then, in cycle
// i = floor(t / t_initial), at u = t - i t_initial, the rate is
//   lr_min + (base cycle_decay^i - lr_min) (1 + cos(pi u^k_decay / t_initial^k_decay)) / 2,
// and lr_min after cycle_limit cycles. Cycle i has length t_initial cycle_mul^i; the formulae above
// are for cycle_mul 1. With warmup_prefix, t counts from the end of the warm-up. With
// steps_per_epoch, all counts are in epochs and the rate is constant within an epoch: timm's
// t_in_epochs.
struct TimmCosineOptions {
  int64_t t_initial = 0;  // >= 1
  double lr_min = 0;
  double cycle_mul = 1, cycle_decay = 1;  // cycle_mul >= 1
  int64_t cycle_limit = 1, warmup_t = 0;
  double warmup_lr_init = 0;
  bool warmup_prefix = false;
  double k_decay = 1;
  int64_t steps_per_epoch = 0;  // 0: counts are in steps
};
struct TimmCosineLR : LRScheduler { TimmCosineLR(Optimizer, const TimmCosineOptions&); };
// clang-format on

}  // namespace booster
