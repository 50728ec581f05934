#include "core/optim/algorithms/rules.h"
#include "kernels/arguments/multi_tensor.h"

#include "kernels/catalogue.h"

namespace booster {
namespace {

class RmspropRule : public UpdateRule {
 public:
  const char* name() const override { return "rmsprop"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},       {"alpha", 0, 1},    {"eps"},           {"weight_decay"},
            {"momentum"}, {"centered", 0, 1}, {"maximize", 0, 1}};
  }
  std::vector<std::string> state_names(const OptimizerOptions& o) const override {
    std::vector<std::string> names;
    names.push_back("square_avg");
    if (has_momentum(o)) names.push_back("momentum_buffer");
    if (is_centered(o)) names.push_back("grad_avg");
    return names;
  }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    return {.rmsprop = {o.at("lr"), o.at("alpha"), o.at("eps"), o.at("weight_decay"),
                        o.at("momentum"), o.at("maximize") != 0}};
  }
  void step(const GroupStep& group) const override {
    kernels::on(group.device)
        .rmsprop_step(group.slots, &group.numbers->rmsprop, has_momentum(group.options),
                      is_centered(group.options), group.control);
  }

 private:
  static bool has_momentum(const OptimizerOptions& o) { return o.at("momentum") != 0; }
  static bool is_centered(const OptimizerOptions& o) { return o.at("centered") != 0; }
};

}  // namespace

std::unique_ptr<UpdateRule> rmsprop_rule() { return std::make_unique<RmspropRule>(); }

OptimizerOptions options_of(const RMSpropOptions& o) {
  return {{"lr", o.lr},
          {"alpha", o.alpha},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"momentum", o.momentum},
          {"centered", o.centered},
          {"maximize", o.maximize}};
}

RMSprop::RMSprop(ParameterGroups groups, const RMSpropOptions& options)
    : Optimizer(rmsprop_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
