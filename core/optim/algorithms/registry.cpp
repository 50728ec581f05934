#include "core/optim/algorithms/registry.h"

#include "core/optim/optimizers.h"
#include "core/optim/update_rule.h"
#include "platform/error.h"

namespace booster {
namespace {

struct OptimizerEntry {
  std::unique_ptr<UpdateRule> (*rule)();
  OptimizerOptions defaults;
};
const std::map<std::string, OptimizerEntry>& optimizers() {
  static const std::map<std::string, OptimizerEntry> table = {
      {"adam", {adam_rule, options_of(AdamOptions())}},
      {"adamw", {adamw_rule, options_of(AdamWOptions())}},
      {"lamb", {lamb_rule, options_of(LAMBOptions())}},
      {"rmsprop", {rmsprop_rule, options_of(RMSpropOptions())}},
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
