#include "booster/boost_arguments.h"

#include "core/autograd/gradient_keeper.h"
#include "parallel/mesh.h"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <unordered_set>

namespace booster {
namespace {

// Throws if a parameter belongs to another training. Several trainings may share a frozen one,
// unless an optimizer holds it (`are_stepped`).
void check_free(const Parameters& parameters, bool are_stepped) {
  for (const auto& [name, tensor] : parameters) {
    const GradientKeeper* keeper = keeper_of(tensor);
    if (!keeper || !(are_stepped || tensor.requires_grad())) continue;
    fail(
        "booster.boost: parameter {} is already boosted ({}); want one boost for all models and "
        "optimizers that train together, or the first Boosted and its copies destroyed",
        name, keeper->name());
  }
}

// Throws if two optimizers share a parameter: they would unscale and clip its gradient twice.
void check_distinct(const Optimizers& optimizers) {
  std::unordered_set<const TensorBody*> seen;
  for (const Optimizer& optimizer : optimizers)
    for (const auto& [name, tensor] : optimizer.parameters())
      check(seen.insert(tensor.body()).second,
            "booster.boost: two optimizers have parameter {}; want each parameter in only one",
            name);
}

struct KnownParameters {
  std::unordered_set<const TensorBody*> tensors;
  std::unordered_set<std::string> names;
};

KnownParameters parameters_of(const std::vector<Model>& models) {
  KnownParameters known;
  for (const Model& model : models)
    for (const auto& [name, tensor] : model.parameters()) {
      known.tensors.insert(tensor.body());
      known.names.insert(name);
    }
  return known;
}

// Throws if the optimizer belongs to another model. It may also hold parameters of a loss.
void check_belongs(const Optimizer& optimizer, const KnownParameters& known) {
  size_t own = 0;
  for (const auto& [name, tensor] : optimizer.parameters()) {
    const bool is_known = known.tensors.contains(tensor.body());
    own += is_known;
    check(is_known || !known.names.contains(name),
          "booster.boost: {}: its parameter {} differs from the model's; got an optimizer of "
          "another model or of a replaced layer, want one made from this model's parameters()",
          optimizer.name(), name);
  }
  check(own > 0,
        "booster.boost: {}: none of its {} parameters belongs to the model; got an optimizer of "
        "another model, want one made from this model's parameters()",
        optimizer.name(), optimizer.parameters().size());
}

// Throws if the optimizer is spread over ranks. Parameters, layers and state that a plugin
// partitioned stay partitioned after the plugin is destroyed. A single rank has all parts.
void check_whole(const Optimizer& optimizer) {
  check(!optimizer.shares_norms() || launch_from_env().size == 1,
        "booster.boost: {} and its model are still spread over ranks by the plugin of an earlier "
        "boost; want new objects, and a checkpoint to transfer the values",
        optimizer.name());
}

std::string text_of(const std::vector<Model>& models) {
  std::string text;
  for (const Model& model : models)
    for (const auto& [name, tensor] : model.parameters())
      text += fmt::format("{} {} {} {};", name, tensor.shape(), name_of(tensor.dtype()),
                          tensor.requires_grad());
  return text;
}

std::string text_of(const Optimizers& optimizers) {
  std::string text;
  for (const Optimizer& optimizer : optimizers) {
    text += optimizer.name();
    for (int group = 0; group < optimizer.group_count(); ++group)
      for (const auto& [name, value] : optimizer.options(group))
        text += fmt::format(" {}={}", name, value);
    for (const auto& [name, tensor] : optimizer.parameters()) text += " " + name;
    text += ";";
  }
  return text;
}

}  // namespace

void check_same_on_all_ranks(const Group& ranks, const std::string& strategy,
                             const std::string& plugin, const std::vector<Model>& models,
                             const Optimizers& optimizers) {
  if (ranks.size() == 1) return;
  const std::pair<const char*, std::string> given[] = {
      {"strategy", strategy},
      {"plugin", plugin},
      {"model", text_of(models)},
      {"optimizer, or other options of it,", text_of(optimizers)}};
  std::vector<int64_t> own;
  for (const auto& [what, text] : given)
    own.push_back(static_cast<int64_t>(std::hash<std::string>()(text)));
  std::vector<int64_t> all(own.size() * static_cast<size_t>(ranks.size()));
  ranks.all_gather(all, own);
  for (size_t i = 0; i < all.size(); ++i)
    check(all[i] == all[i % own.size()],
          "booster.boost: rank {} has a different {} than rank 0; want the same on all ranks",
          i / own.size(), given[i % own.size()].first);
}

void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers) {
  check(!models.empty() && !optimizers.empty(),
        "booster.boost: want at least one model and one optimizer; got {} and {}", models.size(),
        optimizers.size());
  check_distinct(optimizers);
  for (const Optimizer& optimizer : optimizers)
    check(
        !optimizer.minimizes(),
        "booster.boost: a step of {} evaluates the loss several times, and strategies and plugins "
        "know steps of one evaluation; want optimizer.step(closure) without a Booster, or another "
        "optimizer",
        optimizer.name());
  for (const Optimizer& optimizer : optimizers) check_whole(optimizer);
  for (const Model& model : models) check_free(model.parameters(), false);
  for (const Optimizer& optimizer : optimizers) check_free(optimizer.parameters(), true);
  const KnownParameters known = parameters_of(models);
  for (const Optimizer& optimizer : optimizers) check_belongs(optimizer, known);
}

void check_joins(const Optimizer& optimizer, const Parameters& added, const Optimizers& all,
                 const GradientKeeper* keeper) {
  std::unordered_set<const TensorBody*> of_others;
  for (const Optimizer& other : all)
    if (!(other == optimizer))
      for (const auto& [name, tensor] : other.parameters()) of_others.insert(tensor.body());
  for (const auto& [name, tensor] : added) {
    const GradientKeeper* other = keeper_of(tensor);
    check(!other || other == keeper,
          "optimizer.add_group: parameter {} belongs to another boosted training ({}); want one "
          "boost for all models and optimizers that train together",
          name, other ? other->name() : "");
    check(!of_others.contains(tensor.body()),
          "optimizer.add_group: two optimizers have parameter {}; want each parameter in only one",
          name);
  }
}

std::vector<Tensor> leaves_of(const std::vector<Model>& models, const Optimizers& optimizers) {
  std::vector<Tensor> leaves;
  std::unordered_set<const TensorBody*> seen;
  const auto add = [&](const Parameters& parameters) {
    for (const auto& [name, tensor] : parameters)
      if (seen.insert(tensor.body()).second) leaves.push_back(tensor);
  };
  for (const Model& model : models) add(model.parameters());
  for (const Optimizer& optimizer : optimizers) add(optimizer.parameters());
  return leaves;
}

}  // namespace booster
