// Schedules that start again: cyclic rates and cosines with restarts.
#include "core/optim/schedules/formula_schedule.h"
#include "core/optim/schedules/momentum_cycle.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

void check_options(const CyclicOptions& o) {
  check_number("cyclic", "base_lr", o.base_lr);
  check_number("cyclic", "max_lr", o.max_lr);
  check_number("cyclic", "gamma", o.gamma);
  check_count("cyclic", "step_size_up", o.step_size_up, 1);
  check_count("cyclic", "step_size_down", o.step_size_down, 0);
  check(o.mode == "triangular" || o.mode == "triangular2" || o.mode == "exp_range",
        "cyclic: no such mode; got {}{}", o.mode,
        legal_names(o.mode, {"triangular", "triangular2", "exp_range"}));
}

class Cyclic : public Schedule {
 public:
  explicit Cyclic(const CyclicOptions& o) : o_(o) {}
  const char* name() const override { return "cyclic"; }
  ScheduleSettings settings() const override {
    return {setting("base_lr", o_.base_lr),
            setting("max_lr", o_.max_lr),
            setting("step_size_up", o_.step_size_up),
            setting("step_size_down", o_.step_size_down),
            setting("mode", o_.mode),
            setting("gamma", o_.gamma),
            setting("cycle_momentum", o_.cycle_momentum),
            setting("base_momentum", o_.base_momentum),
            setting("max_momentum", o_.max_momentum)};
  }
  bool uses_base() const override { return false; }
  double lr(int64_t t, double, int) const override {
    return o_.base_lr + (o_.max_lr - o_.base_lr) * height(t);
  }
  void apply_more(Optimizer& optimizer, int64_t t) const override {
    if (!o_.cycle_momentum) return;
    set_momentum(optimizer, o_.max_momentum - (o_.max_momentum - o_.base_momentum) * height(t));
  }

 private:
  // Returns the share of the way from the base to the top, 0 to 1.
  double height(int64_t t) const {
    const auto up = static_cast<double>(o_.step_size_up);
    const double down = o_.step_size_down > 0 ? static_cast<double>(o_.step_size_down) : up;
    const double total = up + down, now = static_cast<double>(t), turn = up / total;
    const double cycle = std::floor(1 + now / total), x = 1 + now / total - cycle;
    const double share = x <= turn ? x / turn : (x - 1) / (turn - 1);
    if (o_.mode == "triangular2") return share / std::pow(2.0, cycle - 1);
    return o_.mode == "exp_range" ? share * std::pow(o_.gamma, now) : share;
  }

  CyclicOptions o_;
};

std::unique_ptr<Schedule> cyclic(const CyclicOptions& options, const Optimizer& optimizer) {
  check_options(options);
  if (options.cycle_momentum) check_has_momentum("cyclic", optimizer);
  return std::make_unique<Cyclic>(options);
}

std::unique_ptr<Schedule> warm_restarts(const CosineWarmRestartsOptions& o) {
  constexpr const char* name = "cosine_warm_restarts";
  check_count(name, "T_0", o.T_0, 1);
  check_count(name, "T_mult", o.T_mult, 1);
  check_number(name, "eta_min", o.eta_min);
  const ScheduleSettings settings = {setting("T_0", o.T_0), setting("T_mult", o.T_mult),
                                     setting("eta_min", o.eta_min)};
  return schedule(name, settings, [o](int64_t t, double base, int) {
    int64_t length = o.T_0, since = o.T_mult == 1 ? t % o.T_0 : t;
    while (since >= length) {
      since -= length;
      length *= o.T_mult;
    }
    return o.eta_min + (base - o.eta_min) * cosine(share(since, length));
  });
}

}  // namespace

CyclicLR::CyclicLR(Optimizer optimizer, const CyclicOptions& options)
    : LRScheduler(optimizer, cyclic(options, optimizer)) {}
CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer optimizer,
                                                         const CosineWarmRestartsOptions& options)
    : LRScheduler(std::move(optimizer), warm_restarts(options)) {}

}  // namespace booster
