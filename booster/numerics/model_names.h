// Names for what an observer sees: tensors and modules have none of their own.
//
// Holds handles on the model's tensors, so that a name never comes to stand for another tensor.
// For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"

#include <span>
#include <string>
#include <unordered_map>

namespace booster::numerics {

class ModelNames {
 public:
  ModelNames(const Model& model, const Optimizer& optimizer);

  // "blocks.0.attn.qkv.weight", or "" for a tensor that is no parameter or buffer.
  std::string of(const Tensor& x) const;
  // "blocks.0.attn"; the kind for a module that is not part of the model, "model" for the whole.
  std::string of(const Module& module) const;
  // The module that holds the first parameter among the tensors, or "".
  std::string layer_of(std::span<const Tensor> tensors) const;

 private:
  Model model_;
  Parameters held_;
  std::unordered_map<const TensorBody*, std::string> tensors_;
  std::unordered_map<const Module*, std::string> modules_;
};

}  // namespace booster::numerics
