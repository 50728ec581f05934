// Names for the tensors and modules that an observer sees, because they do not know their names.
//
// Holds handles to the model's tensors, so that a name can never refer to another tensor.
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
  // Also names these parameters, unless they have a name.
  void add(const Parameters& parameters);

  // Returns "blocks.0.attn.qkv.weight", or "" for a tensor that is not a parameter or buffer.
  std::string of(const Tensor& x) const;
  // Returns "blocks.0.attn"; "model" for the whole model; the kind for a module outside the model.
  std::string of(const Module& module) const;
  // Returns the module that holds the first parameter among the tensors, or "".
  std::string layer_of(std::span<const Tensor> tensors) const;

 private:
  Model model_;
  Parameters held_;
  std::unordered_map<const TensorBody*, std::string> tensors_;
  std::unordered_map<const Module*, std::string> modules_;
};

}  // namespace booster::numerics
