// Traits: a model's facts about itself, so that the library names no model. Plugins, the planner
// and files of weights read them.
//
//   ModuleTraits Encoder::traits() const override {
//     return {.tensor_plan = {{"blocks.*.fc1", {.style = SplitStyle::column}},
//                             {"blocks.*.fc2", {.style = SplitStyle::row}}},
//             .blocks = "blocks.*",
//             .tokens = 197,
//             .features = 192};
//   }
//
// Every trait is optional. Code that needs a missing trait throws, or reads an option of the
// config. Names are relative to the module that returns them, so traits hold anywhere in a larger
// model. docs/add-a-model.md has a table of them.
#pragma once

#include "core/nn/module.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// --- tensor plans: how ranks share layers. Patterns of names, with * and ?, select modules. Layers
// without a pattern are whole on every rank. A plan replaces no module; it marks weights
// (core/autograd/layer_split.h).
enum class SplitStyle : uint8_t {
  column,      // linear layer: some of its output features per rank
  row,         // linear layer: some of its input features per rank, as a column layer outputs them
  vocabulary,  // embedding: some of its entries; a linear layer with the same weight is column
  shared,      // whole parameters that work on parts, selected by their names or modules; their
               // gradients are summed
};
struct LayerPlan {
  SplitStyle style = SplitStyle::column;
  int64_t groups = 1;   // column: number of consecutive matrices (3: q, k and v), each sharded
  bool gather = false;  // column: all ranks get all features; uneven parts are allowed
};
using TensorPlan = std::vector<std::pair<std::string, LayerPlan>>;

// --- the names and form of a model in weights-only files. Shapes of all tensors in a model's
// files, by name.
using StoredShapes = std::map<std::string, std::vector<uint64_t>>;

// Converts tensors between memory and files. Tensors are whole, not sharded. Names are those in the
// module's state_dict or in the files. Results may be views of the arguments. Set both functions or
// neither; without them, files hold the module unchanged.
struct FileForm {
  std::function<NamedTensor(const NamedTensor& own)> to_file = {};
  // Converts one tensor of a file. `all` shows the files' form, which may also be the module's own,
  // as in checkpoints. Returns an undefined tensor if the model does not use this one. Two tensors
  // of the files may get one name if they are equal.
  std::function<NamedTensor(const NamedTensor& stored, const StoredShapes& all)> from_file = {};
};
// Returns the form of files that differ only in names. Each pair holds the beginning of a name in
// the model and in files; the first match counts: {{"blocks.", "encoder.layer."}}.
FileForm renamed(std::vector<std::pair<std::string, std::string>> names);

struct ModuleTraits {
  // --- tensor parallelism
  TensorPlan tensor_plan = {};
  // The function also works on a part of the features, as activations and dropout do.
  bool elementwise = false;

  // --- sequence parallelism, and its prediction by the planner
  // Pattern of the modules that run in sequence on (batch, tokens, features): "blocks.*".
  std::string blocks = {};
  int64_t tokens = 0;        // that blocks get for any input; 0: the input determines it
  int token_dimension = -1;  // dimension of the input that counts tokens; -1: none does
  int64_t features = 0;      // per token, between blocks
  // Blocks do not depend on token positions, and no other module uses their parameters. Sequence
  // parallelism then omits its checks of both, which turn fused functions off.
  bool position_free = false;

  // --- weights
  FileForm file_form = {};
  // Modules with one output per class. They keep their own values if a file has other classes.
  std::vector<std::string> heads = {};
  // Parameters (1, 1 + side * side, features) of a class token and a square grid of patches.
  // Loading resamples them if a file has another image size.
  std::vector<std::string> position_grids = {};
  // Parameters without weight decay, in addition to all one-dimensional ones.
  std::vector<std::string> no_weight_decay = {};

  // --- scope
  bool several_models = false;  // the parts are separate models, called separately
  // Traits do not hold inside another module, which may call the parts one by one.
  bool alone_only = false;
};

}  // namespace booster
