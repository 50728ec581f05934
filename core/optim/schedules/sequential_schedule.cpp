#include "core/optim/schedules/formula_schedule.h"
#include "core/optim/schedules/parts_of_schedule.h"

#include <algorithm>

namespace booster {
namespace {

class Sequence : public Schedule {
 public:
  Sequence(std::vector<LRScheduler> parts, std::vector<int64_t> milestones)
      : parts_(std::move(parts)), milestones_(std::move(milestones)) {}
  const char* name() const override { return "sequential"; }
  ScheduleSettings settings() const override {
    ScheduleSettings all = settings_of(parts_);
    all["milestones"] = fmt::format("{}", fmt::join(milestones_, ", "));
    return all;
  }
  double lr(int64_t t, double base, int group) const override {
    const auto [part, own_t] = at(t);
    return part.lr(own_t, base, group);
  }
  void apply_more(Optimizer& optimizer, int64_t t) const override {
    const auto [part, own_t] = at(t);
    part.apply_more(optimizer, own_t);
  }

 private:
  struct Position {
    const Schedule& part;
    int64_t t;
  };
  Position at(int64_t t) const {
    const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), t);
    const auto i = static_cast<size_t>(passed - milestones_.begin());
    return {parts_[i].schedule(), i > 0 ? t - milestones_[i - 1] : t};
  }

  std::vector<LRScheduler> parts_;
  std::vector<int64_t> milestones_;
};

void check_milestones(const std::vector<LRScheduler>& parts,
                      const std::vector<int64_t>& milestones) {
  check(!parts.empty() && milestones.size() + 1 == parts.size(),
        "sequential: wrong number of milestones; got {} for {} schedulers, want one fewer",
        milestones.size(), parts.size());
  int64_t before = 0;
  for (const int64_t milestone : milestones) {
    check(milestone > before, "sequential: milestones must rise and be at least 1; got {} after {}",
          milestone, before);
    before = milestone;
  }
}

// Makes the schedule. Checks the parts before it reads the first one's rates.
std::unique_ptr<Schedule> sequence(const Optimizer& optimizer,
                                   const std::vector<LRScheduler>& parts,
                                   const std::vector<int64_t>& milestones) {
  check_milestones(parts, milestones);
  check_parts("sequential", optimizer, parts);
  return std::make_unique<Sequence>(parts, milestones);
}

}  // namespace

SequentialLR::SequentialLR(Optimizer optimizer, const std::vector<LRScheduler>& schedulers,
                           const std::vector<int64_t>& milestones)
    : LRScheduler(optimizer, sequence(optimizer, schedulers, milestones), first_rates(schedulers)) {
}

}  // namespace booster
