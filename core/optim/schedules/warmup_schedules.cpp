#include "core/optim/schedules/lr_scheduler.h"

#include "core/optim/schedules/formula_schedule.h"

#include <algorithm>

namespace booster {
namespace {

std::unique_ptr<Schedule> linear_schedule(const LinearScheduleOptions& o) {
  constexpr const char* name = "linear_schedule_with_warmup";
  check_warmup(name, o.warmup_steps, o.total_steps);
  const ScheduleSettings settings = {setting("warmup_steps", o.warmup_steps),
                                     setting("total_steps", o.total_steps)};
  return schedule(name, settings, [o](int64_t t, double base, int) {
    if (t < o.warmup_steps) return base * share(t, o.warmup_steps);
    if (t >= o.total_steps) return 0.0;
    return base * share(o.total_steps - t, o.total_steps - o.warmup_steps);
  });
}

std::unique_ptr<Schedule> cosine_schedule(const CosineScheduleOptions& o) {
  constexpr const char* name = "cosine_schedule_with_warmup";
  check_warmup(name, o.warmup_steps, o.total_steps);
  check_number(name, "num_cycles", o.num_cycles);
  const ScheduleSettings settings = {setting("warmup_steps", o.warmup_steps),
                                     setting("total_steps", o.total_steps),
                                     setting("num_cycles", o.num_cycles)};
  return schedule(name, settings, [o](int64_t t, double base, int) {
    if (t < o.warmup_steps) return base * share(t, o.warmup_steps);
    const int64_t steps = std::max<int64_t>(o.total_steps - o.warmup_steps, 1);
    return base * std::max(cosine(2 * o.num_cycles * share(t - o.warmup_steps, steps)), 0.0);
  });
}

void check_options(const TimmCosineOptions& o) {
  constexpr const char* name = "timm_cosine";
  check_count(name, "t_initial", o.t_initial, 1);
  check_count(name, "cycle_limit", o.cycle_limit, 1);
  check_count(name, "warmup_t", o.warmup_t, 0);
  check_count(name, "steps_per_epoch", o.steps_per_epoch, 0);
  check_number(name, "lr_min", o.lr_min);
  check_number(name, "warmup_lr_init", o.warmup_lr_init);
  check_number(name, "cycle_decay", o.cycle_decay);
  check_number(name, "k_decay", o.k_decay);
  check(std::isfinite(o.cycle_mul) && o.cycle_mul >= 1,
        "timm_cosine: cycle_mul is out of range; got {}, want a finite number, at least 1",
        o.cycle_mul);
}

// The cycle of a step, and the step's position in it.
struct CyclePosition {
  double cycle, length, at;
};

// Returns the cycle of step t. With m = cycle_mul, cycle i has length t_initial m^i and starts at
// t_initial (1 - m^i) / (1 - m).
CyclePosition cycle_of(const TimmCosineOptions& o, int64_t t) {
  const auto first = static_cast<double>(o.t_initial), now = static_cast<double>(t);
  if (o.cycle_mul == 1) {
    const auto cycle = static_cast<double>(t / o.t_initial);
    return {cycle, first, now - first * cycle};
  }
  const double m = o.cycle_mul;
  const double cycle = std::floor(std::log(1 - now / first * (1 - m)) / std::log(m));
  return {cycle, std::pow(m, cycle) * first, now - (1 - std::pow(m, cycle)) / (1 - m) * first};
}

double timm_rate(const TimmCosineOptions& o, int64_t step, double base) {
  int64_t t = o.steps_per_epoch > 0 ? step / o.steps_per_epoch : step;
  if (t < o.warmup_t)
    return o.warmup_lr_init +
           static_cast<double>(t) * (base - o.warmup_lr_init) / static_cast<double>(o.warmup_t);
  if (o.warmup_prefix) t -= o.warmup_t;
  const CyclePosition position = cycle_of(o, t);
  if (position.cycle >= static_cast<double>(o.cycle_limit)) return o.lr_min;
  const double top = base * std::pow(o.cycle_decay, position.cycle);
  const double progress = std::pow(position.at, o.k_decay) / std::pow(position.length, o.k_decay);
  return o.lr_min + (top - o.lr_min) * cosine(progress);
}

std::unique_ptr<Schedule> timm_cosine(const TimmCosineOptions& o) {
  check_options(o);
  const ScheduleSettings settings = {setting("t_initial", o.t_initial),
                                     setting("lr_min", o.lr_min),
                                     setting("cycle_mul", o.cycle_mul),
                                     setting("cycle_decay", o.cycle_decay),
                                     setting("cycle_limit", o.cycle_limit),
                                     setting("warmup_t", o.warmup_t),
                                     setting("warmup_lr_init", o.warmup_lr_init),
                                     setting("warmup_prefix", o.warmup_prefix),
                                     setting("k_decay", o.k_decay),
                                     setting("steps_per_epoch", o.steps_per_epoch)};
  return schedule("timm_cosine", settings,
                  [o](int64_t t, double base, int) { return timm_rate(o, t, base); });
}

}  // namespace

LinearScheduleWithWarmup::LinearScheduleWithWarmup(Optimizer optimizer,
                                                   const LinearScheduleOptions& options)
    : LRScheduler(std::move(optimizer), linear_schedule(options)) {}
CosineScheduleWithWarmup::CosineScheduleWithWarmup(Optimizer optimizer,
                                                   const CosineScheduleOptions& options)
    : LRScheduler(std::move(optimizer), cosine_schedule(options)) {}
TimmCosineLR::TimmCosineLR(Optimizer optimizer, const TimmCosineOptions& options)
    : LRScheduler(std::move(optimizer), timm_cosine(options)) {}

}  // namespace booster
