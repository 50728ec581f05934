#include "booster/boost_arguments.h"

#include "core/autograd/gradient_keeper.h"

#include <string>
#include <unordered_set>

namespace booster {
namespace {

// A frozen parameter may serve several trainings; one that is trained belongs to one.
void check_free(const Parameters& parameters, bool are_stepped) {
  for (const auto& [name, tensor] : parameters) {
    const GradientKeeper* keeper = keeper_of(tensor);
    if (!keeper || !(are_stepped || tensor.requires_grad())) continue;
    fail("booster.boost: parameter {} was boosted already ({}); want one boost for all models and "
         "optimizers that train together, or the first Boosted and its copies gone",
         name, keeper->name());
  }
}

// Two would unscale and clip one gradient twice.
void check_distinct(const Optimizers& optimizers) {
  std::unordered_set<const TensorBody*> seen;
  for (const Optimizer& optimizer : optimizers)
    for (const auto& [name, tensor] : optimizer.parameters())
      check(seen.insert(tensor.body()).second,
            "booster.boost: two optimizers have parameter {}; want each parameter in one", name);
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

// A loss may have parameters of its own, so an optimizer may hold others besides.
void check_belongs(const Optimizer& optimizer, const KnownParameters& known) {
  size_t own = 0;
  for (const auto& [name, tensor] : optimizer.parameters()) {
    const bool is_known = known.tensors.contains(tensor.body());
    own += is_known;
    check(is_known || !known.names.contains(name),
          "booster.boost: {}: its parameter {} is not the one that the model has; got an optimizer "
          "of another model, or of a layer that was replaced, want one made from this model's "
          "parameters()",
          optimizer.name(), name);
  }
  check(own > 0,
        "booster.boost: {}: none of its {} parameters is the model's; got an optimizer of another "
        "model, want one made from this model's parameters()",
        optimizer.name(), optimizer.parameters().size());
}

}  // namespace

void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers) {
  check(!models.empty() && !optimizers.empty(),
        "booster.boost: want at least one model and one optimizer; got {} and {}", models.size(),
        optimizers.size());
  check_distinct(optimizers);
  for (const Model& model : models) check_free(model.parameters(), false);
  for (const Optimizer& optimizer : optimizers) check_free(optimizer.parameters(), true);
  const KnownParameters known = parameters_of(models);
  for (const Optimizer& optimizer : optimizers) check_belongs(optimizer, known);
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
