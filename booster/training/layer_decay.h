// Layer-wise learning-rate decay, as in timm's param_groups_layer_decay and in BEiT: the closer a
// layer is to the input, the smaller its learning rate.
//
//   auto optimizer = AdamW(layer_decay_groups(model, {.lr = 1e-3, .weight_decay = 0.05,
//                                                     .layer_decay = 0.65}));
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"

#include <string>
#include <vector>

namespace booster {

struct LayerDecayOptions {
  double lr = 1e-3;  // of the last layer
  double weight_decay = 0.05;
  double layer_decay = 0.75;  // from each layer to the one before it
  double min_scale = 0;       // lower bound of a layer's rate, relative to the last layer's
  // Further parameters without weight decay, besides one-dimensional ones and those that the
  // model's traits name (core/nn/module_traits.h).
  std::vector<std::string> no_weight_decay = {};
};

// Returns all parameters of a model in groups with their own `lr` and `weight_decay`. Layers are
// the model's links (core/nn/module.h): an embedding, each block, the head. A normalisation in
// the last link belongs to the layer before it. A model with one link is one layer. Throws if an
// option is out of range.
std::vector<ParameterGroup> layer_decay_groups(const Model& model, LayerDecayOptions options = {});

}  // namespace booster
