// What a Booster may boost together. Errors come before anything is changed. For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <string>
#include <vector>

namespace booster {

// Errors: no model or optimizer; one that is boosted already, or that was by a plugin which left it
// spread over ranks; a parameter in two optimizers; an
// optimizer of other models: none of its parameters is one of theirs, or one is only called so.
void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers);

// Error on all ranks if they were given different strategies, plugins, models (names, shapes,
// dtypes, frozen parameters) or optimizers (rule and options). Collective.
void check_same_on_all_ranks(const Group& ranks, const std::string& strategy,
                             const std::string& plugin, const std::vector<Model>& models,
                             const Optimizers& optimizers);

// All parameters, each once.
std::vector<Tensor> leaves_of(const std::vector<Model>& models, const Optimizers& optimizers);

// Error if a parameter that joins an optimizer is another training's (its gradients are not kept by
// `keeper`), or another's of the optimizers that were boosted together.
void check_joins(const Optimizer& optimizer, const Parameters& added, const Optimizers& all,
                 const GradientKeeper* keeper);

}  // namespace booster
