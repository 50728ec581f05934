// Layer-wise learning-rate decay, as timm's param_groups_layer_decay and BEiT have it: the nearer a
// layer is to the input, the less it learns.
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
  double min_scale = 0;       // of a layer's rate, relative to the last one's
  // Names of parameters whose weights do not decay, beside those of one dimension.
  std::vector<std::string> no_weight_decay = {"cls_token", "pos_embed"};
};

// All parameters of a model, in groups with `lr` and `weight_decay` of their own. Layers are the
// model's links (core/nn/module.h): a ViT's embedding, each block, the head; a normalisation in the
// last link belongs to the layer before it. A model that is one link is one layer. Error for an
// option out of range.
std::vector<ParameterGroup> layer_decay_groups(const Model& model, LayerDecayOptions options = {});

}  // namespace booster
