// Weights that a model starts from: from timm, Hugging Face or booster. The source may have another
// number of classes or, for a Vision Transformer, another image size.
#pragma once

#include "core/nn/module.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

// Names of the tensors that did not simply fit, by what happened to them.
struct StartWeights {
  std::vector<std::string> resized;  // position embeddings, from another grid of patches
  std::vector<std::string> fresh;  // of the head: absent or for other classes; keep their values
  std::vector<std::string> unused;   // in the file, but not in the model

  // Returns "2 resized: pos_embed, ...; ...", or "" if all fitted.
  std::string to_string() const;
};

// Copies the tensors of `path` into the model, whose dtypes and devices stay. `path` is a
// safetensors file, an index, or a folder with either (such as a checkpoint's). The model's traits
// name its head and its position embeddings, which are resampled as timm does (bicubic with
// antialias; Dosovitskiy et al., 2021, section 3.2). Throws an Error of kind data, and changes
// nothing, if a file cannot be read, lacks a tensor of the model outside its head
// (Module::optional_names may be absent), or has a tensor of another shape.
StartWeights load_start_weights(const Model& model, const std::filesystem::path& path);

}  // namespace booster
