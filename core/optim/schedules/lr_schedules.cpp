// The formulas of the schedulers; each is stated in lr_scheduler.h.
#include "core/optim/schedules/formula_schedule.h"

#include <algorithm>

namespace booster {
namespace {

std::unique_ptr<Schedule> linear_warmup(const LinearWarmupOptions& o) {
  check_warmup("linear_warmup", o.warmup_steps, o.total_steps);
  const ScheduleSettings settings = {setting("warmup_steps", o.warmup_steps),
                                     setting("total_steps", o.total_steps)};
  return schedule("linear_warmup", settings, [o](int64_t t, double base, int) {
    if (t < o.warmup_steps) return share(t + 1, o.warmup_steps + 1) * base;
    if (t >= o.total_steps) return 0.0;
    return share(o.total_steps - t, o.total_steps - o.warmup_steps) * base;
  });
}

std::unique_ptr<Schedule> cosine_annealing(const CosineAnnealingOptions& o) {
  check_count("cosine", "T_max", o.T_max, 1);
  check_number("cosine", "eta_min", o.eta_min);
  const ScheduleSettings settings = {setting("T_max", o.T_max), setting("eta_min", o.eta_min)};
  return schedule("cosine", settings, [o](int64_t t, double base, int) {
    return o.eta_min + (base - o.eta_min) * cosine(share(t, o.T_max));
  });
}

std::unique_ptr<Schedule> cosine_warmup(const CosineAnnealingWarmupOptions& o) {
  check_warmup("cosine_warmup", o.warmup_steps, o.total_steps);
  check_number("cosine_warmup", "eta_min", o.eta_min);
  const ScheduleSettings settings = {setting("warmup_steps", o.warmup_steps),
                                     setting("total_steps", o.total_steps),
                                     setting("eta_min", o.eta_min)};
  return schedule("cosine_warmup", settings, [o](int64_t t, double base, int) {
    if (t < o.warmup_steps) return share(t + 1, o.warmup_steps) * base;
    if (t >= o.total_steps) return o.eta_min;
    const double progress = share(t - o.warmup_steps, o.total_steps - o.warmup_steps);
    return o.eta_min + (base - o.eta_min) * cosine(progress);
  });
}

std::unique_ptr<Schedule> polynomial(const PolynomialOptions& o) {
  check_count("polynomial", "total_steps", o.total_steps, 1);
  check_number("polynomial", "power", o.power);
  check_number("polynomial", "end_lr", o.end_lr);
  const ScheduleSettings settings = {setting("total_steps", o.total_steps),
                                     setting("power", o.power),
                                     setting("end_lr", o.end_lr)};
  return schedule("polynomial", settings, [o](int64_t t, double base, int) {
    const double left = 1 - share(std::min(t, o.total_steps), o.total_steps);
    return o.end_lr + (base - o.end_lr) * std::pow(left, o.power);
  });
}

std::unique_ptr<Schedule> step_decay(const StepOptions& o) {
  check_count("step", "step_size", o.step_size, 1);
  check_number("step", "gamma", o.gamma);
  const ScheduleSettings settings = {setting("step_size", o.step_size), setting("gamma", o.gamma)};
  return schedule("step", settings, [o](int64_t t, double base, int) {
    return base * std::pow(o.gamma, static_cast<double>(t / o.step_size));
  });
}

std::unique_ptr<Schedule> multi_step(MultiStepOptions o) {
  for (int64_t milestone : o.milestones) check_count("multi_step", "milestone", milestone, 0);
  check_number("multi_step", "gamma", o.gamma);
  std::sort(o.milestones.begin(), o.milestones.end());
  const std::string milestones = fmt::format("{}", fmt::join(o.milestones, ", "));
  const ScheduleSettings settings = {{"milestones", milestones}, setting("gamma", o.gamma)};
  return schedule("multi_step", settings, [o](int64_t t, double base, int) {
    const auto passed = std::upper_bound(o.milestones.begin(), o.milestones.end(), t);
    return base * std::pow(o.gamma, static_cast<double>(passed - o.milestones.begin()));
  });
}

std::unique_ptr<Schedule> exponential(const ExponentialOptions& o) {
  check_number("exponential", "gamma", o.gamma);
  return schedule("exponential", {setting("gamma", o.gamma)}, [o](int64_t t, double base, int) {
    return base * std::pow(o.gamma, static_cast<double>(t));
  });
}

std::unique_ptr<Schedule> constant(const ConstantOptions& o) {
  check_number("constant", "factor", o.factor);
  check_count("constant", "total_steps", o.total_steps, 0);
  const ScheduleSettings settings = {setting("factor", o.factor),
                                     setting("total_steps", o.total_steps)};
  return schedule("constant", settings, [o](int64_t t, double base, int) {
    return o.total_steps == 0 || t < o.total_steps ? base * o.factor : base;
  });
}

std::unique_ptr<Schedule> linear(const LinearLROptions& o) {
  check_number("linear_factor", "start_factor", o.start_factor);
  check_number("linear_factor", "end_factor", o.end_factor);
  check_count("linear_factor", "total_steps", o.total_steps, 1);
  const ScheduleSettings settings = {setting("start_factor", o.start_factor),
                                     setting("end_factor", o.end_factor),
                                     setting("total_steps", o.total_steps)};
  return schedule("linear_factor", settings, [o](int64_t t, double base, int) {
    const double passed = share(std::min(t, o.total_steps), o.total_steps);
    return base * (o.start_factor + (o.end_factor - o.start_factor) * passed);
  });
}

std::unique_ptr<Schedule> lambda(const Optimizer& optimizer, std::vector<LRFactor> factors) {
  const int groups = optimizer.group_count();
  check(factors.size() == 1 || static_cast<int>(factors.size()) == groups,
        "lambda: number of functions; got {}, want 1 or one for each of {} parameter groups",
        factors.size(), groups);
  return schedule("lambda", {}, [factors](int64_t t, double base, int group) {
    if (factors.size() == 1) return base * factors[0](t);
    check(static_cast<size_t>(group) < factors.size(),
          "lambda: group {} was added after the schedule; got functions for {} groups, want one "
          "function for all, or the group before the schedule",
          group, factors.size());
    return base * factors[static_cast<size_t>(group)](t);
  });
}

}  // namespace

LinearWarmupLR::LinearWarmupLR(Optimizer optimizer, const LinearWarmupOptions& options)
    : LRScheduler(std::move(optimizer), linear_warmup(options)) {}
CosineAnnealingLR::CosineAnnealingLR(Optimizer optimizer, const CosineAnnealingOptions& options)
    : LRScheduler(std::move(optimizer), cosine_annealing(options)) {}
CosineAnnealingWarmupLR::CosineAnnealingWarmupLR(Optimizer optimizer,
                                                 const CosineAnnealingWarmupOptions& options)
    : LRScheduler(std::move(optimizer), cosine_warmup(options)) {}
PolynomialLR::PolynomialLR(Optimizer optimizer, const PolynomialOptions& options)
    : LRScheduler(std::move(optimizer), polynomial(options)) {}
StepLR::StepLR(Optimizer optimizer, const StepOptions& options)
    : LRScheduler(std::move(optimizer), step_decay(options)) {}
MultiStepLR::MultiStepLR(Optimizer optimizer, const MultiStepOptions& options)
    : LRScheduler(std::move(optimizer), multi_step(options)) {}
ExponentialLR::ExponentialLR(Optimizer optimizer, const ExponentialOptions& options)
    : LRScheduler(std::move(optimizer), exponential(options)) {}
ConstantLR::ConstantLR(Optimizer optimizer, const ConstantOptions& options)
    : LRScheduler(std::move(optimizer), constant(options)) {}
LinearLR::LinearLR(Optimizer optimizer, const LinearLROptions& options)
    : LRScheduler(std::move(optimizer), linear(options)) {}
LambdaLR::LambdaLR(Optimizer optimizer, LRFactor factor)
    : LambdaLR(std::move(optimizer), std::vector<LRFactor>{std::move(factor)}) {}
LambdaLR::LambdaLR(Optimizer optimizer, std::vector<LRFactor> factors)
    : LRScheduler(optimizer, lambda(optimizer, std::move(factors))) {}

}  // namespace booster
