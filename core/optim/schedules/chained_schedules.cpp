// Schedules that are products: of a function's values over the steps, and of several schedules.
#include "core/optim/schedules/formula_schedule.h"
#include "core/optim/schedules/parts_of_schedule.h"

#include <vector>

namespace booster {
namespace {

// f(1) f(2) ... f(t), which remembers the last t.
class RunningProduct {
 public:
  explicit RunningProduct(LRFactor factor) : factor_(std::move(factor)) {}
  double until(int64_t t) {
    if (t < t_) t_ = 0, product_ = 1;
    while (t_ < t) product_ *= factor_(++t_);
    return product_;
  }

 private:
  LRFactor factor_;
  int64_t t_ = 0;
  double product_ = 1;
};

std::unique_ptr<Schedule> multiplicative(LRFactor factor) {
  const auto product = std::make_shared<RunningProduct>(std::move(factor));
  return schedule("multiplicative", {},
                  [product](int64_t t, double base, int) { return base * product->until(t); });
}

// A product of schedules, each of which gives a multiple of its base.
class Chain : public Schedule {
 public:
  explicit Chain(std::vector<LRScheduler> parts) : parts_(std::move(parts)) {}
  const char* name() const override { return "chained"; }
  ScheduleSettings settings() const override { return settings_of(parts_); }
  double lr(int64_t t, double base, int group) const override {
    double rate = base;
    for (const LRScheduler& part : parts_) {
      check(part.schedule().lr(t, 0, group) == 0,
            "chained: {} does not multiply the rate; got {} for a rate of 0", part.name(),
            part.schedule().lr(t, 0, group));
      rate *= part.schedule().lr(t, 1, group);
    }
    return rate;
  }
  void apply_more(Optimizer& optimizer, int64_t t) const override {
    for (const LRScheduler& part : parts_) part.schedule().apply_more(optimizer, t);
  }

 private:
  std::vector<LRScheduler> parts_;
};

std::unique_ptr<Schedule> chain(const Optimizer& optimizer, const std::vector<LRScheduler>& parts) {
  check(!parts.empty(), "chained: no schedulers; got an empty list");
  check_parts("chained", optimizer, parts);
  for (const LRScheduler& part : parts)
    check(part.schedule().uses_base(), "chained: {} cannot be a part, because it sets the rate",
          part.name());
  return std::make_unique<Chain>(parts);
}

}  // namespace

MultiplicativeLR::MultiplicativeLR(Optimizer optimizer, LRFactor factor)
    : LRScheduler(std::move(optimizer), multiplicative(std::move(factor))) {}

ChainedScheduler::ChainedScheduler(Optimizer optimizer, const std::vector<LRScheduler>& schedulers)
    : LRScheduler(optimizer, chain(optimizer, schedulers), first_rates(schedulers)) {}

}  // namespace booster
