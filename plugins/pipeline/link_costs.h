// Costs of a model's links, for a cut into stages of equal cost (stage_cut.h).
#pragma once

#include "core/nn/module.h"

#include <vector>

namespace booster {

// Returns for each link the number of elements of its parameters and buffers, plus 1, so that every
// link has a cost.
std::vector<double> parameter_costs(Module& model);

// Returns the seconds of each link, the fastest of `rounds`, on the batch that the previous link
// returned. Times forward, and the parts of backward that training needs. The model is in
// evaluation mode meanwhile, so batch statistics and gradients do not change.
std::vector<double> measured_costs(Module& model, const Tensors& input, int rounds = 3);

}  // namespace booster
