// Writes models as ONNX files, for runtimes without booster.
#pragma once

#include "core/nn/module.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

struct OnnxOptions {
  std::vector<std::string> classes = {};  // names by output index; JSON metadata
  // The input holds whole numbers from 0 to `indices` - 1, such as tokens (i64). 0: it holds
  // numbers (f32), or values like the model's example_input().
  int64_t indices = 0;
};

// Writes the model's evaluation forward pass in f32, with operator set 17. It runs the model on
// inputs of several shapes and writes the recorded ops. Every op must have an operator in ONNX.
// `sample` is the shape of one input without the batch: (channels, height, width), (features) or
// (tokens). The graph has the input "input" and the output "logits". It accepts any batch size, and
// any size of the other dimensions that the model leaves open and the graph can follow. Weights
// keep their names. The model may be on any device and in any dtype, and does not change. Throws an
// Error of kind usage for a shape that the model refuses, and for an op without a translation; that
// error names the op and its module. Throws one of kind failed if the file cannot be written.
void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options = {});

}  // namespace booster
