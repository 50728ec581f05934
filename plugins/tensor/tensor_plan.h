// A tensor plan: which layers of a model are cut over the ranks of a tensor group, as data.
//
//   {{"blocks.*.mlp.fc1", {SplitStyle::column}}, {"blocks.*.mlp.fc2", {SplitStyle::row}}}
//
// Modules are chosen by patterns of their names, with * and ?. Layers that are not named are whole
// on every rank. No module is replaced: the plan marks weights (core/autograd/layer_split.h).
#pragma once

#include "core/nn/module.h"

#include <string>
#include <utility>
#include <vector>

namespace booster {

enum class SplitStyle : uint8_t {
  column,      // a linear layer: some of its output features on each rank
  row,         // a linear layer: some of its input features, as a column one before it leaves them
  vocabulary,  // an embedding: some of its entries; a linear layer with the same weight is column
  shared,      // parameters that are whole on each rank, but work on parts there: by patterns of
               // their names, or of modules that hold them. Their gradients are summed
};

struct LayerPlan {
  SplitStyle style = SplitStyle::column;
  int64_t groups = 1;   // column: as many matrices lie one behind the other (3: q, k and v), and
                        // each is cut
  bool gather = false;  // column: all ranks get all features; they need not divide evenly
};
using TensorPlan = std::vector<std::pair<std::string, LayerPlan>>;

// Error with the nearest name for a style that does not exist.
SplitStyle split_style_named(const std::string& name);
const char* name_of(SplitStyle style);

// The plan that comes with a model: Vision Transformers, GPT-2, and chains of linear layers and
// activations such as models::mlp, also where several models were boosted together. Empty for any
// other.
TensorPlan shipped_tensor_plan(Module& model);

}  // namespace booster
