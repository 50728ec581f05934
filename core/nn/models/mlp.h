// Stacks of linear layers.
#pragma once

#include "core/nn/layers.h"

#include <vector>

namespace booster::models {

struct MlpOptions {
  bool bias = true;
  bool flatten = false;  // turn images and other samples of several dimensions into rows first
};

// Makes linear layers between the given sizes ({784, 256, 10} has two) with ReLU between them. The
// input may have any number of leading dimensions, unless it is flattened. Throws for fewer than
// two sizes.
Model mlp(const std::vector<int64_t>& sizes, const MlpOptions& options = {});
// Throws if mlp() would refuse these sizes.
void check_mlp_sizes(const std::vector<int64_t>& sizes);

}  // namespace booster::models
