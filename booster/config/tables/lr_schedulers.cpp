#include "booster/config/tables/lr_schedulers.h"

#include "booster/config/options/options.h"
#include "core/optim/schedules/lr_scheduler.h"

namespace booster {

namespace {

template <class Made, class Fields>
LRSchedulerEntry entry(const char* name, const char* description,
                       const FieldTable<Fields>& fields) {
  return {name, description, fields.options(),
          [=](const Optimizer& optimizer, const OptionValues& values, int64_t) -> LRScheduler {
            return Made(optimizer, fields.read(values));
          }};
}

// Returns a schedule with an end: total_steps is stored in `total`.
template <class Made, class Fields>
LRSchedulerEntry entry(const char* name, const char* description, int64_t Fields::*total,
                       std::vector<FieldRow<Fields>> rows) {
  rows.push_back(field("total_steps", total, between(0, most_scheduled_steps),
                       "steps of the schedule; 0: the whole training"));
  const FieldTable<Fields> fields = std::move(rows);
  return {name, description, fields.options(),
          [=](const Optimizer& optimizer, const OptionValues& values,
              int64_t training_steps) -> LRScheduler {
            Fields options = fields.read(values);
            if (options.*total == 0) options.*total = training_steps;
            if constexpr (std::is_same_v<Made, TimmCosineLR>)
              if (values.get<int64_t>("total_steps") == 0 && options.steps_per_epoch > 0)
                options.t_initial = (training_steps - 1) / options.steps_per_epoch + 1;
            if constexpr (std::is_same_v<Made, OneCycleLR>)
              check(options.*total >= training_steps,
                    "lr_scheduler.total_steps: one_cycle ends before the training; got {}, want 0 "
                    "or at least {}",
                    options.*total, training_steps);
            return Made(optimizer, options);
          }};
}

template <class Fields>
FieldRow<Fields> warmup_steps() {
  return field("warmup_steps", &Fields::warmup_steps, between(0, most_scheduled_steps),
               "steps until the full rate");
}

template <class Fields>
FieldRow<Fields> eta_min() {
  return field("eta_min", &Fields::eta_min, at_least(0), "lowest learning rate");
}

template <class Fields>
FieldRow<Fields> gamma() {
  return field("gamma", &Fields::gamma, above(0), "factor of each decrease");
}

LRSchedulerEntry constant() {
  return {"constant",
          "the optimizer's learning rate throughout",
          {},
          [](const Optimizer& optimizer, const OptionValues&, int64_t) -> LRScheduler {
            return ConstantLR(optimizer);
          }};
}

LRSchedulerEntry linear_warmup() {
  using Fields = LinearWarmupOptions;
  return entry<LinearWarmupLR>("linear_warmup", "rises over the warm-up, then falls linearly to 0",
                               &Fields::total_steps, {warmup_steps<Fields>()});
}

LRSchedulerEntry cosine() {
  using Fields = CosineAnnealingOptions;
  return entry<CosineAnnealingLR>("cosine", "half a cosine from the learning rate down to eta_min",
                                  &Fields::T_max, {eta_min<Fields>()});
}

LRSchedulerEntry cosine_warmup() {
  using Fields = CosineAnnealingWarmupOptions;
  return entry<CosineAnnealingWarmupLR>(
      "cosine_warmup", "rises over the warm-up, then falls as half a cosine", &Fields::total_steps,
      {warmup_steps<Fields>(), eta_min<Fields>()});
}

LRSchedulerEntry polynomial() {
  using Fields = PolynomialOptions;
  return entry<PolynomialLR>("polynomial", "falls as a power of the remaining steps",
                             &Fields::total_steps,
                             {field("power", &Fields::power, above(0), "exponent")});
}

LRSchedulerEntry linear() {
  using Fields = LinearLROptions;
  return entry<LinearLR>(
      "linear_factor", "linear from one factor of the learning rate to another",
      &Fields::total_steps,
      {field("start_factor", &Fields::start_factor, at_least(0), "factor of the first rate"),
       field("end_factor", &Fields::end_factor, at_least(0), "factor of the last rate")});
}

LRSchedulerEntry linear_schedule() {
  using Fields = LinearScheduleOptions;
  return entry<LinearScheduleWithWarmup>("linear_schedule_with_warmup",
                                         "rises from 0, then falls linearly to 0 (Hugging Face's)",
                                         &Fields::total_steps, {warmup_steps<Fields>()});
}

LRSchedulerEntry cosine_schedule() {
  using Fields = CosineScheduleOptions;
  return entry<CosineScheduleWithWarmup>(
      "cosine_schedule_with_warmup", "rises from 0, then falls as a cosine (Hugging Face's)",
      &Fields::total_steps,
      {warmup_steps<Fields>(), field("num_cycles", &Fields::num_cycles, above(0),
                                     "waves of the cosine; 0.5: half a wave")});
}

LRSchedulerEntry timm_cosine() {
  using Fields = TimmCosineOptions;
  const auto count = at_least(0);
  return entry<TimmCosineLR>(
      "timm_cosine", "rises from warmup_lr_init, then half cosines (timm's)", &Fields::t_initial,
      {field("lr_min", &Fields::lr_min, at_least(0), "lowest learning rate"),
       field("warmup_t", &Fields::warmup_t, count, "steps until the full rate"),
       field("warmup_lr_init", &Fields::warmup_lr_init, at_least(0), "the first rate of warm-up"),
       field("warmup_prefix", &Fields::warmup_prefix, "the cosine begins after the warm-up"),
       field("cycle_limit", &Fields::cycle_limit, at_least(1), "cosines before lr_min stays"),
       field("cycle_mul", &Fields::cycle_mul, at_least(1),
             "length of a cycle relative to the previous one"),
       field("cycle_decay", &Fields::cycle_decay, at_least(0), "factor of the rate each cycle"),
       field("k_decay", &Fields::k_decay, above(0), "exponent of a cycle's progress"),
       field("steps_per_epoch", &Fields::steps_per_epoch, count,
             "steps per unit of the counts (timm's t_in_epochs); 0: single steps")});
}

LRSchedulerEntry step() {
  using Fields = StepOptions;
  return entry<StepLR, Fields>(
      "step", "multiplies by gamma every step_size steps",
      {with_default(field("step_size", &Fields::step_size, at_least(1), "steps between decreases"),
                    1000),
       gamma<Fields>()});
}

LRSchedulerEntry multi_step() {
  using Fields = MultiStepOptions;
  return entry<MultiStepLR, Fields>(
      "multi_step", "multiplies by gamma at each milestone",
      {field("milestones", &Fields::milestones, at_least(0), "steps at which it decreases"),
       gamma<Fields>()});
}

LRSchedulerEntry one_cycle() {
  using Fields = OneCycleOptions;
  return entry<OneCycleLR>(
      "one_cycle", "rises to max_lr, then falls far below the first rate", &Fields::total_steps,
      {with_default(field("max_lr", &Fields::max_lr, above(0), "highest learning rate"), 0.1),
       field("anneal_strategy", &Fields::anneal_strategy, {"cos", "linear"},
             "shape of both phases"),
       field("cycle_momentum", &Fields::cycle_momentum, "momentum moves in the opposite direction"),
       field("pct_start", &Fields::pct_start, between(0, 1),
             "share of the steps with a rising rate"),
       field("div_factor", &Fields::div_factor, above(0), "highest learning rate / first one"),
       field("final_div_factor", &Fields::final_div_factor, above(0),
             "first learning rate / last one")});
}

LRSchedulerEntry cyclic() {
  using Fields = CyclicOptions;
  return entry<CyclicLR, Fields>(
      "cyclic", "rises to max_lr and falls back, again and again",
      {with_default(field("base_lr", &Fields::base_lr, at_least(0), "lowest learning rate"), 0.001),
       with_default(field("max_lr", &Fields::max_lr, above(0), "highest learning rate"), 0.1),
       field("step_size_up", &Fields::step_size_up, at_least(1), "steps with a rising rate"),
       field("step_size_down", &Fields::step_size_down, at_least(0),
             "steps with a falling rate; 0: as many"),
       field("mode", &Fields::mode, {"triangular", "triangular2", "exp_range"},
             "height of later cycles: the same, half each time, or times gamma each step"),
       field("gamma", &Fields::gamma, above(0), "factor of the height each step, in exp_range"),
       field("cycle_momentum", &Fields::cycle_momentum, "momentum moves in the opposite direction"),
       field("base_momentum", &Fields::base_momentum, between(0, 1), "momentum at the top"),
       field("max_momentum", &Fields::max_momentum, between(0, 1), "momentum at the bottom")});
}

LRSchedulerEntry cosine_warm_restarts() {
  using Fields = CosineWarmRestartsOptions;
  return entry<CosineAnnealingWarmRestarts, Fields>(
      "cosine_warm_restarts", "half a cosine down to eta_min, which starts again",
      {with_default(field("T_0", &Fields::T_0, at_least(1), "steps until the first restart"), 1000),
       field("T_mult", &Fields::T_mult, at_least(1),
             "length of a cycle relative to the previous one"),
       eta_min<Fields>()});
}

}  // namespace

const std::vector<LRSchedulerEntry>& lr_scheduler_entries() {
  static const std::vector<LRSchedulerEntry> entries = {
      constant(),
      linear_warmup(),
      cosine(),
      cosine_warmup(),
      polynomial(),
      linear(),
      linear_schedule(),
      cosine_schedule(),
      timm_cosine(),
      step(),
      multi_step(),
      entry<ExponentialLR, ExponentialOptions>("exponential", "multiplies by gamma every step",
                                               {gamma<ExponentialOptions>()}),
      one_cycle(),
      cyclic(),
      cosine_warm_restarts()};
  return entries;
}

}  // namespace booster
