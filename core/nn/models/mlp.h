// Stacks of linear layers.
#pragma once

#include "core/nn/layers.h"

#include <vector>

namespace booster::models {

struct MlpOptions {
  bool bias = true;
  bool flatten = false;  // images and other samples of several dimensions become rows first
};

// Linear layers between the sizes given ({784, 256, 10} has two) with ReLU between them; the input
// may have any number of leading dimensions, unless it is flattened. Error for fewer than two
// sizes.
Model mlp(const std::vector<int64_t>& sizes, const MlpOptions& options = {});
// That error alone.
void check_mlp_sizes(const std::vector<int64_t>& sizes);

}  // namespace booster::models
