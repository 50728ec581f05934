// Checks whether a Booster may boost objects together. Each check throws before anything is
// changed. For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <string>
#include <vector>

namespace booster {

class GradientKeeper;

// Throws in each of these cases:
// - there is no model or optimizer;
// - a parameter is boosted already;
// - an earlier plugin left the optimizer spread over ranks;
// - two optimizers have the same parameter;
// - an optimizer has none of the models' parameters, or one that has only the name of one.
void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers);

// Throws on all ranks if their strategies, plugins, models (names, shapes, dtypes, frozen
// parameters) or optimizers (rule and options) differ. Collective.
void check_same_on_all_ranks(const Group& ranks, const std::string& strategy,
                             const std::string& plugin, const std::vector<Model>& models,
                             const Optimizers& optimizers);

// Returns all parameters, each once.
std::vector<Tensor> leaves_of(const std::vector<Model>& models, const Optimizers& optimizers);

// Throws if a parameter that joins an optimizer belongs to another optimizer of the same boost, or
// to another training (`keeper` does not keep its gradients).
void check_joins(const Optimizer& optimizer, const Parameters& added, const Optimizers& all,
                 const GradientKeeper* keeper);

}  // namespace booster
