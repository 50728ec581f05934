// Learning-rate schedulers. A schedule is a formula lr[t], the rate in force during optimizer step
// t (from 0); constructing a scheduler sets lr[0], and each step(), called after the optimizer's,
// moves to the next. `base` stands for a group's rate when the scheduler was made.
//
//   auto scheduler = LinearWarmupLR(optimizer, {.warmup_steps = 50, .total_steps = steps});
//   optimizer.step();  scheduler.step();
//
// One schedule goes by a metric instead, ReduceLROnPlateau: `scheduler.step(loss_of_validation)`.
//
// Schedulers are handles: copies share one count. Formulas are closed forms; where a name is
// PyTorch's the rates are PyTorch's, within rounding. A rate that the program sets itself holds
// until the next step, which gives the schedule's (some of PyTorch's go on from the one they find).
//
// A group that is added to the optimizer later is scheduled too. Before the first step() its rate
// is its base, as that of the first groups. After it the rate with which it was added is the one in
// force now, and the group goes on from there in proportion to the others, as PyTorch's do: its
// base is the one for which the schedule gives that rate. Error, at the next step(), where no base
// does: the schedule has come to a rate that no longer depends on it, or has one function per
// group.
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
// What a schedule that goes by metrics remembers: "bad_steps", 3.
using ScheduleMemory = std::map<std::string, double>;

class Schedule {
 public:
  virtual ~Schedule() = default;
  // "linear_warmup": begins messages, marks saved state.
  virtual const char* name() const = 0;
  virtual double lr(int64_t t, double base, int group) const = 0;
  // False if a group's rate does not follow from its base: one-cycle, a plateau's.
  virtual bool uses_base() const { return true; }
  // Its options, so that a resumed training can tell which of them changed.
  virtual ScheduleSettings settings() const { return {}; }
  // What else follows the steps: one-cycle's momentum.
  virtual void apply_more(Optimizer&, int64_t) const {}

  // --- of a schedule that goes by metrics: it remembers what it saw
  virtual bool wants_metric() const { return false; }
  // The metric of this step, with the rates now in force, by group.
  virtual void observe(double /*metric*/, const std::vector<double>& /*rates*/) {}
  // A group was added, with this rate.
  virtual void add_group(double /*rate*/) {}
  virtual ScheduleMemory memory() const { return {}; }
  // All or nothing; error for what is no memory of this schedule with so many groups.
  virtual void remember(const ScheduleMemory&, size_t /*groups*/) {}
};

struct LRSchedulerState {
  std::string name;
  int64_t step = 0;
  std::vector<double> base_lrs;  // by parameter group
  ScheduleSettings settings = {};  // for information: those in force are the scheduler's own
  ScheduleMemory memory = {};
  // The rates that the program gave, by group: other ones than base_lrs where a group was added
  // after the first step.
  std::vector<double> given_lrs = {};
};

class LRScheduler {
 public:
  LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule);

  // Moves on to the next step's rate. Error for a schedule that wants a metric.
  void step();
  // The same for one that does, and an error for all others.
  void step(double metric);
  // The same, unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void step(const Report& report) {
    if (!report.skipped()) step();
  }

  // The rate now in force.
  double lr(int group = 0) const;
  int64_t step_count() const;
  const char* name() const;
  const Schedule& schedule() const;
  // True if it sets this optimizer's rates.
  bool drives(const Optimizer& optimizer) const;

  LRSchedulerState state_dict() const;
  // All or nothing; an error says what does not fit.
  void load_state_dict(const LRSchedulerState& state);

 protected:
  // With rates other than the optimizer's present ones as `base`, by group.
  LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule,
              std::vector<double> base_lrs);

 private:
  struct Body;
  std::shared_ptr<Body> body_;
};

// Warm-up base (t + 1) / (warmup_steps + 1), then straight to 0 at total_steps and 0 after it:
// base (total_steps - t) / (total_steps - warmup_steps). Colossal-AI's LinearWarmupLR.
struct LinearWarmupOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;  // >= 1
};
class LinearWarmupLR : public LRScheduler {
 public:
  LinearWarmupLR(Optimizer optimizer, const LinearWarmupOptions& options);
};

// eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2; past T_max it rises again. PyTorch's.
struct CosineAnnealingOptions {
  int64_t T_max = 0;  // >= 1
  double eta_min = 0;
};
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer optimizer, const CosineAnnealingOptions& options);
};

// Warm-up base (t + 1) / warmup_steps, then half a cosine over the remaining steps:
// eta_min + (base - eta_min) (1 + cos(pi s)) / 2, s = (t - warmup_steps) / (total_steps -
// warmup_steps), and eta_min from total_steps on. Colossal-AI's CosineAnnealingWarmupLR.
struct CosineAnnealingWarmupOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;  // >= 1
  double eta_min = 0;
};
class CosineAnnealingWarmupLR : public LRScheduler {
 public:
  CosineAnnealingWarmupLR(Optimizer optimizer, const CosineAnnealingWarmupOptions& options);
};

// end_lr + (base - end_lr) (1 - min(t, total_steps) / total_steps)^power. With end_lr 0 PyTorch's.
struct PolynomialOptions {
  int64_t total_steps = 0;  // >= 1
  double power = 1;
  double end_lr = 0;
};
class PolynomialLR : public LRScheduler {
 public:
  PolynomialLR(Optimizer optimizer, const PolynomialOptions& options);
};

// base gamma^floor(t / step_size). PyTorch's.
struct StepOptions {
  int64_t step_size = 0;  // >= 1
  double gamma = 0.1;
};
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer optimizer, const StepOptions& options);
};

// base gamma^(number of milestones <= t); a repeated milestone counts as often as it stands there.
// PyTorch's.
struct MultiStepOptions {
  std::vector<int64_t> milestones = {};  // >= 0, in any order
  double gamma = 0.1;
};
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer optimizer, const MultiStepOptions& options);
};

// base gamma^t. PyTorch's.
struct ExponentialOptions {
  double gamma = 1;
};
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer optimizer, const ExponentialOptions& options);
};

// base factor while t < total_steps, then base. PyTorch's, but constant throughout by default.
struct ConstantOptions {
  double factor = 1;
  int64_t total_steps = 0;
};
class ConstantLR : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer optimizer, const ConstantOptions& options = {});
};

// base (start_factor + (end_factor - start_factor) min(t, total_steps) / total_steps). PyTorch's.
struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  int64_t total_steps = 5;  // >= 1
};
class LinearLR : public LRScheduler {
 public:
  LinearLR(Optimizer optimizer, const LinearLROptions& options);
};

// PyTorch's OneCycleLR (Smith and Topin): from max_lr / div_factor up to max_lr during the first
// pct_start of the steps, then down to max_lr / div_factor / final_div_factor (with three_phase:
// first as long down as it went up, then on to the end). Momentum, or beta1, goes the opposite way
// between base_momentum and max_momentum. An error past total_steps. Where
// PyTorch's line goes on below 0, in the one value after the last step, the rate is 0.
struct OneCycleOptions {
  double max_lr = 0;
  int64_t total_steps = 0;              // >= 1
  double pct_start = 0.3;               // [0, 1]
  std::string anneal_strategy = "cos";  // or "linear"
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer optimizer, const OneCycleOptions& options);
};

// One schedule after another: schedulers[i] is in force from milestones[i - 1] on, where its own t
// is 0. PyTorch's. Each was made for the same optimizer; `base` is the first one's for all of them,
// so make them in order. Errors: another optimizer, milestones that do not rise or are not one
// fewer than schedulers, a schedule that wants a metric.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer optimizer, const std::vector<LRScheduler>& schedulers,
               const std::vector<int64_t>& milestones);
};

// Multiplies the rates by `factor` when the metric given to step() has not become better for more
// than `patience` steps; the next `cooldown` steps do not count. Better than the best so far means
// less than best (1 - threshold), or best - threshold where threshold_mode is "abs"; for mode "max"
// more than best (1 + threshold), or best + threshold. A rate stays where it would change by no
// more than eps. PyTorch's.
struct ReduceLROnPlateauOptions {
  std::string mode = "min";  // or "max"
  double factor = 0.1;       // [0, 1)
  int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";  // or "abs"
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
};
class ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer optimizer, const ReduceLROnPlateauOptions& options = {});
};

// base f(t), with one f for all groups or one for each. PyTorch's. With one for each, a group that
// is added later is an error.
using LRFactor = std::function<double(int64_t t)>;
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer optimizer, LRFactor factor);
  LambdaLR(Optimizer optimizer, std::vector<LRFactor> factors);
};

}  // namespace booster
