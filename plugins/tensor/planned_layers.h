// The layers of a model that a tensor plan names.
#pragma once

#include "plugins/tensor/tensor_plan.h"

#include <string>
#include <vector>

namespace booster {

struct PlannedLayer {
  std::string name;
  Module* module = nullptr;
  Module* parent = nullptr;
  LayerPlan plan;

  // What is cut. Error if the module has no weight of the plan's style.
  Tensor weight() const;
  Tensor bias() const;  // undefined if there is none
};

// True if a pattern with * and ? stands for the name.
bool matches_name(const std::string& pattern, const std::string& name);

// Each pattern of a layer has one at least, each layer one pattern; error otherwise.
std::vector<PlannedLayer> planned_layers(const TensorPlan& plan, Module& model);
// The parameters of the plan's patterns of style shared; each has one at least, error otherwise.
Parameters shared_parameters(const TensorPlan& plan, Module& model);

}  // namespace booster
