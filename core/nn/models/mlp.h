// Stacks of linear layers.
#pragma once

#include "core/nn/layers.h"

#include <vector>

namespace booster::models {

// Linear layers between the sizes given ({784, 256, 10} has two) with ReLU between them; the input
// may have any number of leading dimensions. Error for fewer than two sizes.
Model mlp(const std::vector<int64_t>& sizes, LinearOptions options = {});

}  // namespace booster::models
