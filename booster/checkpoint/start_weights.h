// Weights of another training that a model starts from: timm's, Hugging Face's or our own, of
// another number of classes or, for a Vision Transformer, another size of images.
#pragma once

#include "core/nn/module.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

// What became of tensors that do not simply fit, by name.
struct StartWeights {
  std::vector<std::string> resized;  // position embeddings, of another grid of patches
  std::vector<std::string> fresh;    // of the head: absent, or for other classes; as they were made
  std::vector<std::string> unused;   // of the file; the model has no such tensor

  // "2 resized: pos_embed, ...; ...", empty if all fitted.
  std::string to_string() const;
};

// Copies the tensors of `path`, a safetensors file, an index or a folder that has the one or the
// other (a checkpoint's), into the model, whose dtypes and devices stay. Position embeddings
// "pos_embed" are resampled as timm does it (bicubic with antialias; Dosovitskiy et al., 2021,
// section 3.2). Error of kind data, and nothing is changed, for a file that cannot be read, one
// that lacks a tensor of the model outside of its head (Module::optional_names may be absent), and
// one with a tensor of another shape.
StartWeights load_start_weights(const Model& model, const std::filesystem::path& path);

}  // namespace booster
