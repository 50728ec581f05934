// Schedules given by formulae, and their parts; for the files of this folder only.
#pragma once

#include "core/optim/schedules/lr_scheduler.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace booster {

inline void check_count(const char* schedule, const char* option, int64_t value, int64_t least) {
  check(value >= least, "{}: {} is out of range; got {}, want at least {}", schedule, option, value,
        least);
}

inline void check_number(const char* schedule, const char* option, double value) {
  check(std::isfinite(value) && value >= 0,
        "{}: {} is out of range; got {}, want a finite number, at least 0", schedule, option,
        value);
}

inline void check_warmup(const char* schedule, int64_t warmup_steps, int64_t total_steps) {
  check_count(schedule, "warmup_steps", warmup_steps, 0);
  check_count(schedule, "total_steps", total_steps, 1);
  check(warmup_steps <= total_steps,
        "{}: warmup_steps is more than total_steps; got {} and {}, want at most {}", schedule,
        warmup_steps, total_steps, total_steps);
}

// Returns half a cosine wave: 1 at progress 0, 0 at progress 1.
inline double cosine(double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; }

inline double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// A schedule that depends only on t, base and group.
template <class F>
class FormulaSchedule : public Schedule {
 public:
  FormulaSchedule(const char* name, ScheduleSettings settings, F formula)
      : name_(name), settings_(std::move(settings)), formula_(std::move(formula)) {}
  const char* name() const override { return name_; }
  ScheduleSettings settings() const override { return settings_; }
  double lr(int64_t t, double base, int group) const override { return formula_(t, base, group); }

 private:
  const char* name_;
  ScheduleSettings settings_;
  F formula_;
};
template <class F>
std::unique_ptr<Schedule> schedule(const char* name, ScheduleSettings settings, F formula) {
  return std::make_unique<FormulaSchedule<F>>(name, std::move(settings), std::move(formula));
}

template <class T>
std::pair<const std::string, std::string> setting(const char* name, const T& value) {
  return {name, fmt::format("{}", value)};
}

}  // namespace booster
