#include "booster/training/frozen_statistics.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {
namespace {

// Returns true if scale and shift are frozen but statistics change. Among the module's tensors of
// this role, parameters are scale and shift; the others are statistics.
bool is_frozen_but_moves(const Module& module) {
  if (!module.training()) return false;
  const Parameters parameters = module.parameters();
  const auto is_parameter = [&](const NamedTensor& one) {
    return std::ranges::any_of(parameters,
                               [&](const auto& p) { return p.tensor.same_body(one.tensor); });
  };
  int frozen = 0, statistics = 0;
  for (const NamedTensor& one : module.own(Role::batch_norm)) {
    if (!is_parameter(one))
      ++statistics;
    else if (one.tensor.requires_grad())
      return false;
    else
      ++frozen;
  }
  return frozen > 0 && statistics > 0;
}

}  // namespace

std::string frozen_statistics(Module& model) {
  constexpr size_t shown = 3;
  std::vector<std::string> names;
  for (const auto& [name, module] : model.named_modules())
    if (is_frozen_but_moves(*module)) names.push_back(name.empty() ? module->kind() : name);
  if (names.empty()) return "";
  std::string text = names[0];
  for (size_t i = 1; i < std::min(shown, names.size()); ++i) text += ", " + names[i];
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return fmt::format(
      "batch normalisation: {}: scale and shift are frozen, but batches in training mode still "
      "change the running statistics, as in torch; to freeze these too, call eval() of the modules "
      "after each train() of the model",
      text);
}

}  // namespace booster
