// Finds the layers of a model that a tensor plan names.
#pragma once

#include "core/nn/module_traits.h"

#include <string>
#include <vector>

namespace booster {

struct PlannedLayer {
  std::string name;
  Module* module = nullptr;
  Module* parent = nullptr;
  LayerPlan plan;

  // Returns the tensor to shard. Throws if the module has no weight for the plan's style.
  Tensor weight() const;
  Tensor bias() const;  // undefined if there is none
};

// Throws unless each pattern of a layer matches at least one layer, and each layer one pattern.
std::vector<PlannedLayer> planned_layers(const TensorPlan& plan, Module& model);
// Returns the parameters of the plan's patterns of style shared; throws for a pattern without any.
Parameters shared_parameters(const TensorPlan& plan, Module& model);

}  // namespace booster
