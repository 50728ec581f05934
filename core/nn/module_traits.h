// Traits: what a model says about itself, so that the library names no model. Plugins, the planner
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
// Every trait may be left out: what needs it then throws, or reads an option of the config. Names
// are relative to the module that returns them, so traits hold wherever it lies in a larger model.
// docs/add-a-model.md has a table of them.
#pragma once

#include "core/nn/module.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// --- how ranks share layers. Patterns of names, with * and ?, select modules. Layers that no
// pattern names are whole on every rank. No module is replaced: a plan marks weights
// (core/autograd/layer_split.h).
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

// --- how weights-only files keep a model: by which names, and in which form.
// Shapes of all tensors in a model's files, by name.
using StoredShapes = std::map<std::string, std::vector<uint64_t>>;

// Converts tensors between memory and files. Tensors are whole, not sharded. Names are those in the
// module's state_dict or in the files. Results may be views of the arguments. Both functions are
// set, or neither: files then hold the module as it is.
struct FileForm {
  std::function<NamedTensor(const NamedTensor& own)> to_file = {};
  // Converts one tensor of a file. `all` shows in which form the files are: they may also be in the
  // module's own form, as checkpoints are. Returns an undefined tensor if the model has no use for
  // this one. Two tensors of the files may come back under one name; they must then be equal.
  std::function<NamedTensor(const NamedTensor& stored, const StoredShapes& all)> from_file = {};
};
// Returns the form of files that differ in names alone. Each pair holds the beginning of a name in
// the model and in files, and the first pair that fits counts: {{"blocks.", "encoder.layer."}}.
FileForm renamed(std::vector<std::pair<std::string, std::string>> names);

struct ModuleTraits {
  // --- tensor parallelism
  TensorPlan tensor_plan = {};
  // The function also works on a part of the features: an activation, dropout.
  bool elementwise = false;

  // --- sequence parallelism, and what the planner predicts of it
  // Pattern of the modules that run one after the other on (batch, tokens, features): "blocks.*".
  std::string blocks = {};
  int64_t tokens = 0;        // that blocks get, whatever the input; 0: the input determines it
  int token_dimension = -1;  // dimension of the input that counts tokens; -1: none does
  int64_t features = 0;      // of each token, between blocks
  // Blocks depend on no token's position, and no other module uses their parameters. Sequence
  // parallelism then omits its checks of both, which turn fused functions off.
  bool position_free = false;

  // --- weights
  FileForm file_form = {};
  // Modules with one output per class: keep their own values if a file is for other classes.
  std::vector<std::string> heads = {};
  // Parameters (1, 1 + side * side, features), of a class token and a square grid of patches. They
  // are resampled if a file is for another image size.
  std::vector<std::string> position_grids = {};
  // Parameters without weight decay, in addition to all one-dimensional ones.
  std::vector<std::string> no_weight_decay = {};

  // --- scope
  bool several_models = false;  // the parts are models of their own, which are called separately
  // Traits do not hold inside another module, which may call the parts one by one.
  bool alone_only = false;
};

}  // namespace booster
