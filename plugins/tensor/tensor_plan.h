// A tensor plan: which layers of a model are sharded over a tensor group, as data.
//
//   {{"blocks.*.mlp.fc1", {SplitStyle::column}}, {"blocks.*.mlp.fc2", {SplitStyle::row}}}
//
// Patterns of names, with * and ?, select modules. Layers that no pattern names are whole on every
// rank. No module is replaced: the plan marks weights (core/autograd/layer_split.h).
#pragma once

#include "core/nn/module.h"

#include <string>
#include <utility>
#include <vector>

namespace booster {

enum class SplitStyle : uint8_t {
  column,      // a linear layer: some of its output features per rank
  row,         // a linear layer: some of its input features, as a column layer outputs them
  vocabulary,  // an embedding: some of its entries; a linear layer with the same weight is column
  shared,      // whole parameters that work on parts on each rank, selected by their names or by
               // modules that hold them; their gradients are summed
};

struct LayerPlan {
  SplitStyle style = SplitStyle::column;
  int64_t groups = 1;   // column: the number of consecutive matrices (3: q, k and v); each is
                        // sharded
  bool gather = false;  // column: all ranks get all features, which need not divide evenly
};
using TensorPlan = std::vector<std::pair<std::string, LayerPlan>>;

// Throws with the nearest name for an unknown style.
SplitStyle split_style_named(const std::string& name);
const char* name_of(SplitStyle style);

// Returns a model's built-in plan. There are plans for Vision Transformers, GPT-2, and chains of
// linear layers and activations such as models::mlp, also if several models were boosted together.
// Empty for any other model.
TensorPlan shipped_tensor_plan(Module& model);

}  // namespace booster
