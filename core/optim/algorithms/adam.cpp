#include "core/optim/algorithms/rules.h"
#include "kernels/arguments/multi_tensor.h"

#include "kernels/catalogue.h"

namespace booster {
namespace {

class AdamRule : public UpdateRule {
 public:
  explicit AdamRule(bool decoupled) : decoupled_(decoupled) {}
  const char* name() const override { return decoupled_ ? "adamw" : "adam"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},  {"beta1", 0, 1, true}, {"beta2", 0, 1, true},
            {"eps"}, {"weight_decay"},      {"maximize", 0, 1}};
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return {"exp_avg", "exp_avg_sq"};
  }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    return {.adam = {o.at("lr"), o.at("beta1"), o.at("beta2"), o.at("eps"), o.at("weight_decay"),
                     decoupled_, o.at("maximize") != 0}};
  }
  void step(const GroupStep& group) const override {
    kernels::on(group.device).adam_step(group.slots, &group.numbers->adam, group.control);
  }

 private:
  bool decoupled_;
};

template <class T>
OptimizerOptions adam_options(const T& o) {
  return {{"lr", o.lr},   {"beta1", o.betas.first},         {"beta2", o.betas.second},
          {"eps", o.eps}, {"weight_decay", o.weight_decay}, {"maximize", o.maximize}};
}

}  // namespace

std::unique_ptr<UpdateRule> adam_rule() { return std::make_unique<AdamRule>(false); }
std::unique_ptr<UpdateRule> adamw_rule() { return std::make_unique<AdamRule>(true); }
OptimizerOptions options_of(const AdamOptions& options) { return adam_options(options); }
OptimizerOptions options_of(const AdamWOptions& options) { return adam_options(options); }

Adam::Adam(ParameterGroups groups, const AdamOptions& options)
    : Optimizer(adam_rule(), std::move(groups), options_of(options)) {}
AdamW::AdamW(ParameterGroups groups, const AdamWOptions& options)
    : Optimizer(adamw_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
