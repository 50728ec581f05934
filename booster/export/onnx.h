// Writes models as ONNX files, for runtimes without booster.
#pragma once

#include "core/nn/module.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

struct OnnxOptions {
  std::vector<std::string> classes = {};  // names by output index; JSON metadata
};

// Writes the model's evaluation forward pass in f32, with operator set 17. Supported models are a
// Vision Transformer, a ResNet-20, and a Sequential of Linear, ReLU, GELU, Flatten and Dropout,
// such as mlp() returns. `sample` is the shape of one input without the batch: (channels, height,
// width) or (features). The graph's input "input" takes any batch size and, for ResNet-20, any
// height and width; its output is "logits". Weights keep their names. The model may be on any
// device and in any dtype; it is not changed. Throws an Error of kind usage for another model or a
// shape that the model does not take, of kind failed if the file cannot be written.
void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options = {});

}  // namespace booster
