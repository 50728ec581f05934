#include "core/optim/registry.h"

#include "core/optim/adam.h"
#include "core/optim/lamb.h"
#include "core/optim/sgd.h"
#include "kernels/error.h"

#include <cmath>

namespace booster {
namespace {

struct OptimizerEntry {
  std::unique_ptr<UpdateRule> (*rule)();
  Options defaults;
};
const std::map<std::string, OptimizerEntry>& optimizers() {
  static const std::map<std::string, OptimizerEntry> table = {
      {"adam", {adam_rule, options_of(AdamOptions())}},
      {"adamw", {adamw_rule, options_of(AdamWOptions())}},
      {"lamb", {lamb_rule, options_of(LAMBOptions())}},
      {"sgd", {sgd_rule, options_of(SGDOptions())}},
  };
  return table;
}

// Options of a scheduler by name, each of them present.
class Values {
 public:
  Values(const std::string& schedule, const ScheduleOptions& options)
      : schedule_(schedule), options_(options) {}

  const std::vector<double>& list(const char* name) const { return options_.at(name); }
  double number(const char* name) const {
    const auto& values = list(name);
    check(values.size() == 1, "{}: {} is a list; got {} numbers, want one", schedule_, name,
          values.size());
    return values[0];
  }
  int64_t count(const char* name) const { return whole(name, number(name)); }
  std::vector<int64_t> counts(const char* name) const {
    std::vector<int64_t> result;
    for (double value : list(name)) result.push_back(whole(name, value));
    return result;
  }
  bool flag(const char* name) const { return number(name) != 0; }

 private:
  int64_t whole(const char* name, double value) const {
    check(value == std::trunc(value) && std::abs(value) <= 9e15,
          "{}: {} is not a whole number; got {}", schedule_, name, value);
    return static_cast<int64_t>(value);
  }
  const std::string& schedule_;
  const ScheduleOptions& options_;
};

struct SchedulerEntry {
  ScheduleOptions defaults;
  LRScheduler (*make)(const Optimizer& optimizer, const Values& v);
};

LRScheduler make_one_cycle(const Optimizer& optimizer, const Values& v) {
  OneCycleOptions o;
  o.max_lr = v.number("max_lr");
  o.total_steps = v.count("total_steps");
  o.pct_start = v.number("pct_start");
  o.cycle_momentum = v.flag("cycle_momentum");
  o.base_momentum = v.number("base_momentum");
  o.max_momentum = v.number("max_momentum");
  o.div_factor = v.number("div_factor");
  o.final_div_factor = v.number("final_div_factor");
  o.three_phase = v.flag("three_phase");
  return OneCycleLR(optimizer, o);
}

const std::map<std::string, SchedulerEntry>& schedulers() {
  using O = const Optimizer&;
  using V = const Values&;
  static const std::map<std::string, SchedulerEntry> table = {
      {"constant",
       {{{"factor", {1}}, {"total_steps", {0}}},
        [](O o, V v) -> LRScheduler {
          return ConstantLR(o, {v.number("factor"), v.count("total_steps")});
        }}},
      {"cosine",
       {{{"T_max", {0}}, {"eta_min", {0}}},
        [](O o, V v) -> LRScheduler {
          return CosineAnnealingLR(o, {v.count("T_max"), v.number("eta_min")});
        }}},
      {"cosine_warmup",
       {{{"warmup_steps", {0}}, {"total_steps", {0}}, {"eta_min", {0}}},
        [](O o, V v) -> LRScheduler {
          return CosineAnnealingWarmupLR(
              o, {v.count("warmup_steps"), v.count("total_steps"), v.number("eta_min")});
        }}},
      {"exponential",
       {{{"gamma", {1}}},
        [](O o, V v) -> LRScheduler { return ExponentialLR(o, {v.number("gamma")}); }}},
      {"linear_warmup",
       {{{"warmup_steps", {0}}, {"total_steps", {0}}},
        [](O o, V v) -> LRScheduler {
          return LinearWarmupLR(o, {v.count("warmup_steps"), v.count("total_steps")});
        }}},
      {"multi_step",
       {{{"milestones", {}}, {"gamma", {0.1}}},
        [](O o, V v) -> LRScheduler {
          return MultiStepLR(o, {v.counts("milestones"), v.number("gamma")});
        }}},
      {"one_cycle",
       {{{"max_lr", {0}},
         {"total_steps", {0}},
         {"pct_start", {0.3}},
         {"cycle_momentum", {1}},
         {"base_momentum", {0.85}},
         {"max_momentum", {0.95}},
         {"div_factor", {25}},
         {"final_div_factor", {1e4}},
         {"three_phase", {0}}},
        make_one_cycle}},
      {"polynomial",
       {{{"total_steps", {0}}, {"power", {1}}, {"end_lr", {0}}},
        [](O o, V v) -> LRScheduler {
          return PolynomialLR(o, {v.count("total_steps"), v.number("power"), v.number("end_lr")});
        }}},
      {"step",
       {{{"step_size", {0}}, {"gamma", {0.1}}},
        [](O o, V v) -> LRScheduler {
          return StepLR(o, {v.count("step_size"), v.number("gamma")});
        }}},
  };
  return table;
}

template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

template <class Map>
const auto& entry_of(const char* what, const Map& table, const std::string& name) {
  const auto found = table.find(name);
  check(found != table.end(), "{}: no such {}; got {}{}", what, what, name,
        found == table.end() ? legal_names(name, keys_of(table)) : "");
  return found->second;
}

}  // namespace

std::vector<std::string> optimizer_names() { return keys_of(optimizers()); }

Options optimizer_defaults(const std::string& name) {
  return entry_of("optimizer", optimizers(), name).defaults;
}

Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const Options& options) {
  const OptimizerEntry& entry = entry_of("optimizer", optimizers(), name);
  auto rule = entry.rule();
  Options all = merged(*rule, entry.defaults, options);
  return Optimizer(std::move(rule), groups, std::move(all));
}

std::vector<std::string> lr_scheduler_names() { return keys_of(schedulers()); }

ScheduleOptions lr_scheduler_defaults(const std::string& name) {
  return entry_of("lr_scheduler", schedulers(), name).defaults;
}

LRScheduler make_lr_scheduler(const std::string& name, const Optimizer& optimizer,
                              const ScheduleOptions& options) {
  const SchedulerEntry& entry = entry_of("lr_scheduler", schedulers(), name);
  ScheduleOptions all = entry.defaults;
  for (const auto& [option, values] : options) {
    check(all.count(option), "{}: no such option; got {}{}", name, option,
          all.count(option) ? "" : legal_names(option, keys_of(entry.defaults)));
    all[option] = values;
  }
  return entry.make(optimizer, Values(name, all));
}

}  // namespace booster
