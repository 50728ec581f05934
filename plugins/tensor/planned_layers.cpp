#include "plugins/tensor/planned_layers.h"

#include "core/nn/layers.h"
#include "platform/error.h"
#include "platform/name_pattern.h"
#include "plugins/tensor/tensor_plan.h"

#include <map>

namespace booster {

namespace {

std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

// Matches the name itself, or the name of a module that holds it.
bool matches_part_of(const std::string& pattern, const std::string& name) {
  for (std::string part = name; !part.empty(); part = parent_of(part))
    if (matches_name(pattern, part)) return true;
  return false;
}

}  // namespace

Tensor PlannedLayer::weight() const {
  if (plan.style == SplitStyle::vocabulary) {
    check(dynamic_cast<const Embedding*>(module) != nullptr,
          "tensor_plan: {}: style vocabulary needs an Embedding; got a {}", name, module->kind());
    return module->parameters()[0].tensor;
  }
  for (const NamedTensor& own : module->own(Role::linear_weight))
    if (own.name == "weight") return own.tensor;
  fail("tensor_plan: {}: style {} needs a linear layer; got a {}", name, name_of(plan.style),
       module->kind());
}

Tensor PlannedLayer::bias() const {
  for (const NamedTensor& parameter : module->parameters())
    if (parameter.name == "bias") return parameter.tensor;
  return {};
}

std::vector<PlannedLayer> planned_layers(const TensorPlan& plan, Module& model) {
  std::map<std::string, Module*> modules;
  std::vector<std::string> names;
  for (const auto& [name, module] : model.named_modules()) {
    modules.emplace(name, module);
    if (!name.empty()) names.push_back(name);
  }
  std::map<std::string, std::string> planned;
  std::vector<PlannedLayer> layers;
  for (const auto& [pattern, layer] : plan) {
    if (layer.style == SplitStyle::shared) continue;
    const size_t before = layers.size();
    for (const std::string& name : names) {
      if (!matches_name(pattern, name)) continue;
      const auto [first, is_new] = planned.emplace(name, pattern);
      check(is_new, "tensor_plan: two patterns match {}: {} and {}", name, first->second, pattern);
      layers.push_back({name, modules.at(name), modules.at(parent_of(name)), layer});
    }
    check(layers.size() > before, "tensor_plan: matches no module; got {}{}", pattern,
          legal_names(pattern, names));
  }
  return layers;
}

Parameters shared_parameters(const TensorPlan& plan, Module& model) {
  const Parameters all = model.parameters();
  std::vector<std::string> names;
  for (const NamedTensor& parameter : all) names.push_back(parameter.name);
  Parameters shared;
  for (const auto& [pattern, layer] : plan) {
    if (layer.style != SplitStyle::shared) continue;
    check(layer.groups == 1 && !layer.gather,
          "tensor_plan: {}: style shared cuts nothing; got groups or gather, want neither",
          pattern);
    const size_t before = shared.size();
    for (const NamedTensor& parameter : all)
      if (matches_part_of(pattern, parameter.name)) shared.push_back(parameter);
    check(shared.size() > before, "tensor_plan: matches no parameter; got {}{}", pattern,
          legal_names(pattern, names));
  }
  return shared;
}

}  // namespace booster
