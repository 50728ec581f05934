// Models as ONNX files, for runtimes that know nothing of booster.
#pragma once

#include "core/nn/module.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

struct OnnxOptions {
  std::vector<std::string> classes = {};  // by output; kept in the file as metadata, as JSON
};

// Writes what the model computes in evaluation, in f32, with the operators of set 17: a Vision
// Transformer, a ResNet-20, or a Sequential of Linear, ReLU, GELU, Flatten and Dropout, such as
// mlp() gives. `sample` is the shape of one input without the batch: (channels, height, width), or
// (features). The graph's input "input" takes any number of them, and of ResNet-20 any height and
// width; its output is "logits". Weights keep their names. The model may be on any device and in
// any dtype, and is as before afterwards. Errors are of kind usage for another model or a shape
// that it does not take, and of kind failed if the file cannot be written.
void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options = {});

}  // namespace booster
