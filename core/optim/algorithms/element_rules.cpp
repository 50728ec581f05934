#include "core/optim/algorithms/rules.h"

#include "kernels/arguments/multi_tensor.h"
#include "kernels/catalogue.h"
#include "platform/error.h"

namespace booster {
namespace {

using kernels::ElementRule;

// A rule with its states, its own options in the order of ElementStep (rates, then bounds; null:
// none), and all defaults.
struct RuleRow {
  const char* name;
  ElementRule rule;
  std::vector<std::string> states;
  const char* rates[2];
  const char* bounds[2];
  bool rates_below_1;
  OptimizerOptions defaults;
};

const RuleRow rule_rows[] = {
    {"adadelta",
     ElementRule::adadelta,
     {"square_avg", "acc_delta"},
     {"rho", nullptr},
     {nullptr, nullptr},
     true,
     options_of(AdadeltaOptions())},
    {"adagrad",
     ElementRule::adagrad,
     {"sum"},
     {nullptr, nullptr},
     {"lr_decay", "initial_accumulator_value"},
     false,
     options_of(AdagradOptions())},
    {"adamax",
     ElementRule::adamax,
     {"exp_avg", "exp_inf"},
     {"beta1", "beta2"},
     {nullptr, nullptr},
     true,
     options_of(AdamaxOptions())},
    {"asgd",
     ElementRule::asgd,
     {"ax"},
     {"lambd", "alpha"},
     {"t0", nullptr},
     false,
     options_of(ASGDOptions())},
    {"nadam",
     ElementRule::nadam,
     {"exp_avg", "exp_avg_sq"},
     {"beta1", "beta2"},
     {"momentum_decay", nullptr},
     true,
     options_of(NAdamOptions())},
    {"radam",
     ElementRule::radam,
     {"exp_avg", "exp_avg_sq"},
     {"beta1", "beta2"},
     {nullptr, nullptr},
     true,
     options_of(RAdamOptions())},
    {"rprop",
     ElementRule::rprop,
     {"prev", "step_size"},
     {"eta_minus", "eta_plus"},
     {"step_size_min", "step_size_max"},
     false,
     options_of(RpropOptions())},
};

const RuleRow& row_named(const std::string& name) {
  for (const RuleRow& row : rule_rows)
    if (row.name == name) return row;
  fail("optimizer: no such rule; got {}", name);
}

template <class Options>
OptimizerOptions adam_like_options(const Options& o) {
  return {{"lr", o.lr},   {"beta1", o.betas.first},         {"beta2", o.betas.second},
          {"eps", o.eps}, {"weight_decay", o.weight_decay}, {"maximize", o.maximize}};
}

class ElementUpdateRule : public UpdateRule {
 public:
  explicit ElementUpdateRule(const RuleRow& row) : row_(row) {}
  const char* name() const override { return row_.name; }
  std::vector<OptionRange> options() const override {
    std::vector<OptionRange> ranges;
    for (const auto& [option, value] : row_.defaults) ranges.push_back(range_of(option));
    return ranges;
  }
  void check_together(const OptimizerOptions& o) const override {
    if (row_.rule != ElementRule::rprop) return;
    check(o.at("eta_minus") > 0 && o.at("eta_minus") < 1 && o.at("eta_plus") > 1,
          "rprop: etas are out of range; got {} and {}, want one in (0, 1) and one above 1",
          o.at("eta_minus"), o.at("eta_plus"));
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return row_.states;
  }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    const auto value = [&](const char* option) {
      const auto found = option ? o.find(option) : o.end();
      return found == o.end() ? 0.0 : found->second;
    };
    return {.element = {value("lr"),
                        {value(row_.rates[0]), value(row_.rates[1])},
                        value("eps"),
                        value("weight_decay"),
                        {value(row_.bounds[0]), value(row_.bounds[1])},
                        value("decoupled_weight_decay") != 0,
                        value("maximize") != 0}};
  }
  void step(const GroupStep& group) const override {
    kernels::on(group.device)
        .element_step(group.slots, &group.numbers->element, row_.rule, group.control);
  }

 private:
  // Names of options are those of the table, which lives forever.
  OptionRange range_of(const std::string& option) const {
    for (const char* rate : row_.rates)
      if (rate && option == rate)
        return row_.rates_below_1 ? OptionRange{rate, 0, 1, true} : OptionRange{rate};
    for (const char* bound : row_.bounds)
      if (bound && option == bound) return {bound};
    if (option == "maximize") return {"maximize", 0, 1};
    if (option == "decoupled_weight_decay") return {"decoupled_weight_decay", 0, 1};
    if (option == "eps") return {"eps"};
    return option == "lr" ? OptionRange{"lr"} : OptionRange{"weight_decay"};
  }

  const RuleRow& row_;
};

std::unique_ptr<UpdateRule> rule_of(const std::string& name) {
  return std::make_unique<ElementUpdateRule>(row_named(name));
}

}  // namespace

OptimizerOptions options_of(const AdadeltaOptions& o) {
  return {{"lr", o.lr},
          {"rho", o.rho},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"maximize", o.maximize}};
}
OptimizerOptions options_of(const AdagradOptions& o) {
  return {{"lr", o.lr},
          {"lr_decay", o.lr_decay},
          {"weight_decay", o.weight_decay},
          {"initial_accumulator_value", o.initial_accumulator_value},
          {"eps", o.eps},
          {"maximize", o.maximize}};
}
OptimizerOptions options_of(const AdamaxOptions& o) { return adam_like_options(o); }
OptimizerOptions options_of(const ASGDOptions& o) {
  return {{"lr", o.lr},
          {"lambd", o.lambd},
          {"alpha", o.alpha},
          {"t0", o.t0},
          {"weight_decay", o.weight_decay},
          {"maximize", o.maximize}};
}
OptimizerOptions options_of(const NAdamOptions& o) {
  OptimizerOptions options = adam_like_options(o);
  options["momentum_decay"] = o.momentum_decay;
  options["decoupled_weight_decay"] = o.decoupled_weight_decay;
  return options;
}
OptimizerOptions options_of(const RAdamOptions& o) {
  OptimizerOptions options = adam_like_options(o);
  options["decoupled_weight_decay"] = o.decoupled_weight_decay;
  return options;
}
OptimizerOptions options_of(const RpropOptions& o) {
  return {{"lr", o.lr},
          {"eta_minus", o.etas.first},
          {"eta_plus", o.etas.second},
          {"step_size_min", o.step_sizes.first},
          {"step_size_max", o.step_sizes.second},
          {"maximize", o.maximize}};
}

#define ELEMENT_OPTIMIZER(Name, name)                                  \
  std::unique_ptr<UpdateRule> name##_rule() { return rule_of(#name); } \
  Name::Name(ParameterGroups groups, const Name##Options& options)     \
      : Optimizer(name##_rule(), std::move(groups), options_of(options)) {}
ELEMENT_OPTIMIZER(Adadelta, adadelta)
ELEMENT_OPTIMIZER(Adagrad, adagrad)
ELEMENT_OPTIMIZER(Adamax, adamax)
ELEMENT_OPTIMIZER(ASGD, asgd)
ELEMENT_OPTIMIZER(NAdam, nadam)
ELEMENT_OPTIMIZER(RAdam, radam)
ELEMENT_OPTIMIZER(Rprop, rprop)
#undef ELEMENT_OPTIMIZER

}  // namespace booster
