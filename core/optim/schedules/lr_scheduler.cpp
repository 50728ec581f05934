#include "core/optim/schedules/lr_scheduler.h"

#include "platform/error.h"

#include <cmath>

namespace booster {

struct LRScheduler::Body {
  Optimizer optimizer;
  std::unique_ptr<Schedule> schedule;
  std::vector<double> base_lrs = {}, given_lrs = base_lrs;
  int64_t step = 0;

  std::vector<double> rates() const {
    std::vector<double> now;
    for (int group = 0; group < optimizer.group_count(); ++group)
      now.push_back(optimizer.lr(group));
    return now;
  }
  // Gives a base to groups added since the last step.
  void follow_groups() {
    const std::vector<double> now = rates();
    for (size_t group = base_lrs.size(); group < now.size(); ++group) {
      base_lrs.push_back(base_of_new(static_cast<int>(group), now[group]));
      given_lrs.push_back(now[group]);
      schedule->add_group(now[group]);
    }
  }
  // Returns the base for which the schedule gives this rate now. A rate is a linear function of its
  // base.
  double base_of_new(int group, double rate) const {
    if (step == 0 || !schedule->uses_base()) return rate;
    const double least = schedule->lr(step, 0, group), slope = schedule->lr(step, 1, group) - least;
    const double base = (rate - least) / slope;
    check(std::isfinite(base),
          "{}: group {} was added too late; got rate {} at step {}, after which the schedule gives "
          "{} for any base, want the group before the schedule",
          schedule->name(), group, rate, step, least);
    return base;
  }
  void apply(int64_t t) {
    std::vector<double> rates;
    for (size_t group = 0; group < base_lrs.size(); ++group)
      rates.push_back(schedule->lr(t, base_lrs[group], static_cast<int>(group)));
    for (size_t group = 0; group < rates.size(); ++group)
      optimizer.set_option(static_cast<int>(group), "lr", rates[group]);
    schedule->apply_more(optimizer, t);
    step = t;
  }
};

LRScheduler::LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule,
                         std::vector<double> base_lrs)
    : body_(new Body{std::move(optimizer), std::move(schedule), std::move(base_lrs)}) {
  body_->apply(0);
}

LRScheduler::LRScheduler(Optimizer optimizer, std::unique_ptr<Schedule> schedule)
    : body_(new Body{std::move(optimizer), std::move(schedule)}) {
  check(body_->schedule != nullptr, "LRScheduler: no schedule; got null");
  body_->follow_groups();
  body_->apply(0);
}

void LRScheduler::step() {
  const Body& body = body_.in("lr_scheduler.step");
  check(!body.schedule->wants_metric(),
        "{}: step needs a metric; got none, want a call such as scheduler.step(loss)", name());
  body_->follow_groups();
  body_->apply(body_->step + 1);
}

void LRScheduler::step(double metric) {
  check(body_->schedule->wants_metric(), "{}: step takes no metric; got {}, want step()", name(),
        metric);
  body_->follow_groups();
  body_->schedule->observe(metric, body_->rates());
  body_->apply(body_->step + 1);
}

double LRScheduler::lr(int group) const { return body_->optimizer.lr(group); }
int64_t LRScheduler::step_count() const { return body_->step; }
const char* LRScheduler::name() const { return body_->schedule->name(); }
const Schedule& LRScheduler::schedule() const { return *body_->schedule; }
bool LRScheduler::drives(const Optimizer& optimizer) const { return body_->optimizer == optimizer; }

LRSchedulerState LRScheduler::state_dict() const {
  body_->follow_groups();
  return {name(),
          body_->step,
          body_->base_lrs,
          body_->schedule->settings(),
          body_->schedule->memory(),
          body_->given_lrs};
}

void LRScheduler::load_state_dict(const LRSchedulerState& state) {
  check(state.name == name(), "load_state_dict: saved by another scheduler; got {}, want {}",
        state.name, name());
  const size_t groups = body_->rates().size();
  check(state.base_lrs.size() == groups,
        "load_state_dict: number of parameter groups differs; got {}, want {}",
        state.base_lrs.size(), groups);
  check(state.given_lrs.empty() || state.given_lrs.size() == groups,
        "load_state_dict: wrong number of given_lrs; got {}, want {} or none",
        state.given_lrs.size(), groups);
  check(state.step >= 0, "load_state_dict: step is out of range; got {}, want >= 0", state.step);
  for (double lr : state.base_lrs)
    check(std::isfinite(lr), "load_state_dict: base lr is out of range; got {}, want a number", lr);
  const ScheduleMemory remembered = body_->schedule->memory();
  body_->schedule->remember(state.memory, groups);
  const auto before = std::exchange(body_->base_lrs, state.base_lrs);
  Optimizer& optimizer = body_->optimizer;
  std::vector<OptimizerOptions> options;
  for (int group = 0; group < optimizer.group_count(); ++group)
    options.push_back(optimizer.options(group));
  try {
    body_->apply(state.step);
    body_->given_lrs = state.given_lrs.empty() ? state.base_lrs : state.given_lrs;
  } catch (...) {  // the optimizer refused a rate, perhaps of its second group
    body_->base_lrs = before;
    body_->schedule->remember(remembered, groups);
    for (size_t group = 0; group < options.size(); ++group)
      optimizer.set_options(static_cast<int>(group), options[group]);
    throw;
  }
}

}  // namespace booster
