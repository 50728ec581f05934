// What a model says about itself to the parts of the library that divide it among ranks. A module
// overrides Module::traits(); a model without traits trains everywhere except where a plan of its
// own is needed.
#pragma once

#include <cstdint>
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

// Which layers of a model are sharded over a tensor group. Patterns of names, with * and ?, select
// modules:
//
//   {{"blocks.*.mlp.fc1", {SplitStyle::column}}, {"blocks.*.mlp.fc2", {SplitStyle::row}}}
//
// Layers that no pattern names are whole on every rank. A pattern that matches nothing is an error.
using TensorPlan = std::vector<std::pair<std::string, LayerPlan>>;

// The defaults say that nothing is known.
struct ModuleTraits {
  TensorPlan tensor_plan = {};
  // A pattern that names a transformer's blocks: modules that run one after the other on (batch,
  // tokens, features).
  std::string blocks = {};
  // The blocks use positions, which they count from first_token() (core/tensor/token_layout.h).
  bool blocks_use_positions = false;
  // Number of tokens that every sample has within the blocks; 0 if samples decide.
  int64_t tokens = 0;
  // The children are models that train together; each is called by itself.
  bool holds_models = false;
};

}  // namespace booster
