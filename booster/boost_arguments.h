// Checks of what a Booster may boost together. Each check throws before anything is changed. For
// one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <string>
#include <vector>

namespace booster {

class GradientKeeper;

// Throws if there is no model or optimizer; if a parameter is boosted already; if an earlier plugin
// left the optimizer spread over ranks; if two optimizers have the same parameter; if an optimizer
// belongs to other models: it has none of the models' parameters, or one of its parameters only has
// the name of one.
void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers);

// Throws on all ranks if they were given different strategies, plugins, models (names, shapes,
// dtypes, frozen parameters) or optimizers (rule and options). Collective.
void check_same_on_all_ranks(const Group& ranks, const std::string& strategy,
                             const std::string& plugin, const std::vector<Model>& models,
                             const Optimizers& optimizers);

// Returns all parameters, each once.
std::vector<Tensor> leaves_of(const std::vector<Model>& models, const Optimizers& optimizers);

// Throws if a parameter that joins an optimizer belongs to another training (`keeper` does not keep
// its gradients) or to another optimizer of the same boost.
void check_joins(const Optimizer& optimizer, const Parameters& added, const Optimizers& all,
                 const GradientKeeper* keeper);

}  // namespace booster
