// A model's forward pass as data: the ops that ran, with attributes, and the tensors between them.
// Holds no results of ops, only their shapes.
#pragma once

#include "core/autograd/op_recorder.h"
#include "core/nn/module.h"

#include <string>
#include <vector>

namespace booster::onnx {

struct TracedValue {
  Shape shape;
  DType dtype;
  Tensor constant;     // defined if it is neither an op's result nor the input
  std::string weight;  // name in the model's state, of a constant that is a parameter or a buffer
};

struct TracedOp {
  std::string name;
  std::string module;       // in which it ran: "blocks.0.attn"; "" for the model itself
  std::vector<int> inputs;  // numbers of values; -1 for an absent one
  std::vector<int> outputs;
  std::vector<OpAttribute> attributes;
};

struct Trace {
  std::vector<TracedValue> values;
  std::vector<TracedOp> ops;  // only those that the output needs, in the order in which they ran
  int input = 0, output = 0;  // values
};

// Runs the model on `input`, in its present mode, without gradients. Throws the model's errors, and
// an Error if it changes a result in place.
Trace trace_of(const Model& model, const Tensor& input);

}  // namespace booster::onnx
