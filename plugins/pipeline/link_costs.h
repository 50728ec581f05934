// What the links of a model cost, for a cut into stages of equal cost (stage_cut.h).
#pragma once

#include "core/nn/module.h"

#include <vector>

namespace booster {

// The number of elements of each link's parameters and buffers, and 1: a link without any is not
// for nothing.
std::vector<double> parameter_costs(Module& model);

// Seconds that each link takes, forward and backward as far as training wants gradients of it, on
// the batch that the link before it gave: the fastest of `rounds`. The model is in evaluation mode
// meanwhile, so statistics of batches do not change, nor do gradients.
std::vector<double> measured_costs(Module& model, const Tensor& input, int rounds = 3);

}  // namespace booster
