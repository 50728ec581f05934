// What a Booster may boost together. Errors come before anything is changed. For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"

#include <vector>

namespace booster {

// Errors: no model or optimizer; one that is boosted already; a parameter in two optimizers; an
// optimizer of other models: none of its parameters is one of theirs, or one is only called so.
void check_boostable(const std::vector<Model>& models, const Optimizers& optimizers);

// All parameters, each once.
std::vector<Tensor> leaves_of(const std::vector<Model>& models, const Optimizers& optimizers);

}  // namespace booster
