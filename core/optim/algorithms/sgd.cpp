#include "core/optim/algorithms/rules.h"
#include "kernels/arguments/multi_tensor.h"

#include "kernels/catalogue.h"
#include "platform/error.h"

namespace booster {
namespace {

class SgdRule : public UpdateRule {
 public:
  const char* name() const override { return "sgd"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},           {"momentum"},       {"dampening", 0, 1},
            {"weight_decay"}, {"nesterov", 0, 1}, {"maximize", 0, 1}};
  }
  void check_together(const OptimizerOptions& o) const override {
    check(o.at("nesterov") == 0 || (o.at("momentum") > 0 && o.at("dampening") == 0),
          "sgd: nesterov needs momentum without dampening; got momentum {} and dampening {}, want "
          "momentum > 0 and dampening 0",
          o.at("momentum"), o.at("dampening"));
  }
  std::vector<std::string> state_names(const OptimizerOptions& o) const override {
    if (o.at("momentum") == 0) return {};
    return {"momentum_buffer"};
  }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    return {.sgd = {o.at("lr"), o.at("momentum"), o.at("dampening"), o.at("weight_decay"),
                    o.at("nesterov") != 0, o.at("maximize") != 0}};
  }
  void step(const GroupStep& group) const override {
    const bool momentum = group.options.at("momentum") != 0;
    kernels::on(group.device).sgd_step(group.slots, &group.numbers->sgd, momentum, group.control);
  }
};

}  // namespace

std::unique_ptr<UpdateRule> sgd_rule() { return std::make_unique<SgdRule>(); }

OptimizerOptions options_of(const SGDOptions& o) {
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", o.nesterov},
          {"maximize", o.maximize}};
}

SGD::SGD(ParameterGroups groups, const SGDOptions& options)
    : Optimizer(sgd_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
