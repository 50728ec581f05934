#include "core/optim/schedules/lr_scheduler.h"
#include "core/optim/schedules/momentum_cycle.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace booster {
namespace {

void check_options(const OneCycleOptions& o) {
  const auto check_positive = [](const char* option, double value) {
    check(std::isfinite(value) && value > 0,
          "one_cycle: {} is out of range; got {}, want a finite number above 0", option, value);
  };
  check(o.total_steps >= 1, "one_cycle: total_steps is out of range; got {}, want at least 1",
        o.total_steps);
  check(o.pct_start >= 0 && o.pct_start <= 1,
        "one_cycle: pct_start is out of range; got {}, want a number from 0 to 1", o.pct_start);
  check(o.anneal_strategy == "cos" || o.anneal_strategy == "linear",
        "one_cycle: no such anneal_strategy; got {}{}", o.anneal_strategy,
        legal_names(o.anneal_strategy, {"cos", "linear"}));
  check_positive("max_lr", o.max_lr);
  check_positive("div_factor", o.div_factor);
  check_positive("final_div_factor", o.final_div_factor);
}

class OneCycle : public Schedule {
 public:
  explicit OneCycle(const OneCycleOptions& o) : o_(o) {
    const double initial = o.max_lr / o.div_factor;
    const double least = initial / o.final_div_factor;
    const double total = static_cast<double>(o.total_steps);
    const double top = o.pct_start * total - 1;  // step of the largest rate; may be fractional
    phases_.push_back({top, initial, o.max_lr, o.max_momentum, o.base_momentum});
    if (o.three_phase) {
      const double foot = 2 * o.pct_start * total - 2;
      phases_.push_back({foot, o.max_lr, initial, o.base_momentum, o.max_momentum});
      phases_.push_back({total - 1, initial, least, o.max_momentum, o.max_momentum});
    } else {
      phases_.push_back({total - 1, o.max_lr, least, o.base_momentum, o.max_momentum});
    }
  }

  const char* name() const override { return "one_cycle"; }
  ScheduleSettings settings() const override {
    const auto text = [](auto value) { return fmt::format("{}", value); };
    return {{"max_lr", text(o_.max_lr)},
            {"total_steps", text(o_.total_steps)},
            {"pct_start", text(o_.pct_start)},
            {"anneal_strategy", o_.anneal_strategy},
            {"cycle_momentum", text(o_.cycle_momentum)},
            {"base_momentum", text(o_.base_momentum)},
            {"max_momentum", text(o_.max_momentum)},
            {"div_factor", text(o_.div_factor)},
            {"final_div_factor", text(o_.final_div_factor)},
            {"three_phase", text(o_.three_phase)}};
  }

  bool uses_base() const override { return false; }
  double lr(int64_t t, double, int) const override {
    check(t <= o_.total_steps, "one_cycle: the schedule ends after {} steps; got step {}",
          o_.total_steps, t);
    const auto [phase, progress] = at(t);
    return anneal(phase.start_lr, phase.end_lr, progress);
  }

  void apply_more(Optimizer& optimizer, int64_t t) const override {
    if (!o_.cycle_momentum) return;
    const auto [phase, progress] = at(t);
    set_momentum(optimizer, anneal(phase.start_momentum, phase.end_momentum, progress));
  }

 private:
  struct Phase {
    double end;
    double start_lr, end_lr;
    double start_momentum, end_momentum;
  };
  struct Position {
    const Phase& phase;
    double progress;
  };

  Position at(int64_t t) const {
    const double now = static_cast<double>(t);
    double start = 0;
    for (const Phase& phase : phases_) {
      if (now <= phase.end || &phase == &phases_.back())
        return {phase, phase.end == start ? 1 : (now - start) / (phase.end - start)};
      start = phase.end;
    }
    return {phases_.back(), 1};
  }

  double anneal(double start, double end, double progress) const {
    // PyTorch's line continues past the last training step, and falls below 0 there.
    if (o_.anneal_strategy == "linear") return std::max((end - start) * progress + start, 0.0);
    return end + (start - end) / 2 * (std::cos(std::numbers::pi * progress) + 1);
  }

  OneCycleOptions o_;
  std::vector<Phase> phases_;
};

std::unique_ptr<Schedule> one_cycle(const OneCycleOptions& options, const Optimizer& optimizer) {
  check_options(options);
  if (options.cycle_momentum) check_has_momentum("one_cycle", optimizer);
  return std::make_unique<OneCycle>(options);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer optimizer, const OneCycleOptions& options)
    : LRScheduler(optimizer, one_cycle(options, optimizer)) {}

}  // namespace booster
