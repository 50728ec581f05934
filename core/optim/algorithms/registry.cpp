#include "core/optim/algorithms/registry.h"

#include "core/optim/algorithms/rules.h"
#include "platform/error.h"

namespace booster {
namespace {

struct OptimizerEntry {
  std::unique_ptr<UpdateRule> (*rule)();
  OptimizerOptions defaults;
};
const std::map<std::string, OptimizerEntry>& optimizers() {
  static const std::map<std::string, OptimizerEntry> table = {
      {"adadelta", {adadelta_rule, options_of(AdadeltaOptions())}},
      {"adafactor", {adafactor_rule, options_of(AdafactorOptions())}},
      {"adagrad", {adagrad_rule, options_of(AdagradOptions())}},
      {"adam", {adam_rule, options_of(AdamOptions())}},
      {"adamax", {adamax_rule, options_of(AdamaxOptions())}},
      {"adamw", {adamw_rule, options_of(AdamWOptions())}},
      {"asgd", {asgd_rule, options_of(ASGDOptions())}},
      {"lamb", {lamb_rule, options_of(LAMBOptions())}},
      {"lbfgs", {lbfgs_rule, options_of(LBFGSOptions())}},
      {"muon", {muon_rule, options_of(MuonOptions())}},
      {"nadam", {nadam_rule, options_of(NAdamOptions())}},
      {"radam", {radam_rule, options_of(RAdamOptions())}},
      {"rmsprop", {rmsprop_rule, options_of(RMSpropOptions())}},
      {"rprop", {rprop_rule, options_of(RpropOptions())}},
      {"sgd", {sgd_rule, options_of(SGDOptions())}},
  };
  return table;
}

const OptimizerEntry& entry_of(const std::string& name) {
  const auto found = optimizers().find(name);
  if (found != optimizers().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [legal, entry] : optimizers()) names.push_back(legal);
  fail("optimizer: unknown name; got {}{}", name, legal_names(name, names));
}

}  // namespace

Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const OptimizerOptions& options) {
  const OptimizerEntry& entry = entry_of(name);
  auto rule = entry.rule();
  OptimizerOptions all = merged(*rule, entry.defaults, options);
  return Optimizer(std::move(rule), groups, std::move(all));
}

}  // namespace booster
