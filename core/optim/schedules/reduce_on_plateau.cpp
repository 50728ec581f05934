#include "core/optim/schedules/formula_schedule.h"

#include <algorithm>
#include <limits>

namespace booster {
namespace {

constexpr const char* schedule_name = "reduce_on_plateau";

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string>& legal) {
  check(std::ranges::find(legal, value) != legal.end(), "{}: no such {}; got {}{}", schedule_name,
        option, value, legal_names(value, legal));
}

void check_options(const ReduceLROnPlateauOptions& o) {
  check_choice("mode", o.mode, {"min", "max"});
  check_choice("threshold_mode", o.threshold_mode, {"rel", "abs"});
  check_count(schedule_name, "patience", o.patience, 0);
  check_count(schedule_name, "cooldown", o.cooldown, 0);
  check_number(schedule_name, "min_lr", o.min_lr);
  check_number(schedule_name, "eps", o.eps);
  check(std::isfinite(o.threshold), "{}: threshold is out of range; got {}, want a finite number",
        schedule_name, o.threshold);
  check(o.factor >= 0 && o.factor < 1, "{}: factor is out of range; got {}, want 0 to below 1",
        schedule_name, o.factor);
}

class ReduceOnPlateau : public Schedule {
 public:
  explicit ReduceOnPlateau(const ReduceLROnPlateauOptions& o)
      : o_(o), worst_(o.mode == "min" ? INFINITY : -INFINITY), best_(worst_) {}
  const char* name() const override { return schedule_name; }
  ScheduleSettings settings() const override {
    return {setting("mode", o_.mode),         setting("factor", o_.factor),
            setting("patience", o_.patience), setting("threshold", o_.threshold),
            setting("cooldown", o_.cooldown), setting("threshold_mode", o_.threshold_mode),
            setting("min_lr", o_.min_lr),     setting("eps", o_.eps)};
  }
  double lr(int64_t, double base, int group) const override {
    return rates_.empty() ? base : rates_[static_cast<size_t>(group)];
  }

  bool uses_base() const override { return false; }
  bool wants_metric() const override { return true; }
  void add_group(double rate) override {
    if (!rates_.empty()) rates_.push_back(rate);
  }
  void observe(double metric, const std::vector<double>& rates) override {
    rates_ = rates;
    if (is_better(metric)) {
      best_ = metric;
      bad_steps_ = 0;
    } else {
      ++bad_steps_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_steps_ = 0;
    }
    if (bad_steps_ <= o_.patience) return;
    reduce();
    cooldown_ = o_.cooldown;
    bad_steps_ = 0;
  }

  ScheduleMemory memory() const override {
    ScheduleMemory all = {{"bad_steps", static_cast<double>(bad_steps_)},
                          {"cooldown", static_cast<double>(cooldown_)}};
    // Checkpoint files hold finite numbers only.
    if (std::isfinite(best_))
      all["best"] = best_;
    else if (best_ != worst_)
      all["best_is_infinite"] = 1;
    for (size_t group = 0; group < rates_.size(); ++group) all[rate_name(group)] = rates_[group];
    return all;
  }
  void remember(const ScheduleMemory& memory, size_t groups) override {
    const auto count = [&](const char* key) {
      const auto found = memory.find(key);
      check(found != memory.end() && found->second >= 0 && found->second < 0x1p53,
            "{}: the saved state lacks the count {}", schedule_name, key);
      return static_cast<int64_t>(found->second);
    };
    const int64_t bad_steps = count("bad_steps"), cooldown = count("cooldown");
    std::vector<double> rates;
    for (size_t group = 0; memory.count(rate_name(group)); ++group)
      rates.push_back(memory.at(rate_name(group)));
    check(rates.empty() || rates.size() == groups,
          "{}: wrong number of saved rates; got {}, want {} or none", schedule_name, rates.size(),
          groups);
    const auto best = memory.find("best");
    if (best != memory.end())
      best_ = best->second;
    else
      best_ = memory.count("best_is_infinite") ? -worst_ : worst_;
    bad_steps_ = bad_steps;
    cooldown_ = cooldown;
    rates_ = std::move(rates);
  }

 private:
  static std::string rate_name(size_t group) { return fmt::format("lr.{}", group); }

  bool is_better(double metric) const {
    const bool relative = o_.threshold_mode == "rel";
    if (o_.mode == "min")
      return metric < (relative ? best_ * (1 - o_.threshold) : best_ - o_.threshold);
    return metric > (relative ? best_ * (1 + o_.threshold) : best_ + o_.threshold);
  }
  void reduce() {
    for (double& rate : rates_) {
      const double lower = std::max(rate * o_.factor, o_.min_lr);
      if (rate - lower > o_.eps) rate = lower;
    }
  }

  ReduceLROnPlateauOptions o_;
  double worst_, best_;
  int64_t bad_steps_ = 0, cooldown_ = 0;
  std::vector<double> rates_;  // by group; empty before the first metric
};

std::unique_ptr<Schedule> reduce_on_plateau(const ReduceLROnPlateauOptions& options) {
  check_options(options);
  return std::make_unique<ReduceOnPlateau>(options);
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer optimizer, const ReduceLROnPlateauOptions& options)
    : LRScheduler(std::move(optimizer), reduce_on_plateau(options)) {}

}  // namespace booster
