// Costs of a model's links, for a cut into stages of equal cost (stage_cut.h).
#pragma once

#include "core/nn/module.h"

#include <vector>

namespace booster {

// Returns for each link the number of elements of its parameters and buffers, plus 1: even a link
// without any has a cost.
std::vector<double> parameter_costs(Module& model);

// Returns the seconds of each link, the fastest of `rounds`, on the batch that the previous link
// returned. It times forward, and backward as far as training needs its gradients. The model is in
// evaluation mode meanwhile, so neither batch statistics nor gradients change.
std::vector<double> measured_costs(Module& model, const Tensor& input, int rounds = 3);

}  // namespace booster
