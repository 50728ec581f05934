// Builds a graph of ONNX operators (github.com/onnx/onnx/blob/main/docs/IR.md). Values have names.
// For one thread.
#pragma once

#include "booster/export/protobuf.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace booster::onnx {

// Element types of a graph: f32, i64 and bool stand for all floating and all integer dtypes.
enum class Kind { floating, integer, truth };
Kind kind_of(DType dtype);
int64_t element_type(Kind kind);  // its number in ONNX

// Returns an operator's attribute, as AttributeProto.
protobuf::Message attribute(const std::string& name, int64_t value);
protobuf::Message attribute(const std::string& name, double value);
protobuf::Message attribute(const std::string& name, const std::vector<int64_t>& values);
protobuf::Message attribute(const std::string& name, const std::string& value);

class Graph {
 public:
  using Value = std::string;
  // Sizes of a value. A name ("batch") stands for a size that differs from run to run.
  using Dimensions = std::vector<std::string>;

  Value input(const std::string& name, Kind kind, const Dimensions& dimensions);
  void output(const Value& value, const std::string& name, Kind kind, const Dimensions& dimensions);
  // Adds a tensor under its name in the model.
  Value weight(const std::string& name, const Tensor& tensor);
  // Add constants of the graph itself: a tensor; a list, such as a shape; one index; one f32 value.
  Value constant(const Tensor& tensor);
  Value integers(const std::vector<int64_t>& values);
  Value index(int64_t value);
  Value number(double value);
  // Adds an operator of the default set and returns its result.
  Value add(const std::string& operation, const std::vector<Value>& inputs,
            const std::vector<protobuf::Message>& attributes = {});
  // Does the same for an operator with `count` results.
  std::vector<Value> add_several(const std::string& operation, const std::vector<Value>& inputs,
                                 const std::vector<protobuf::Message>& attributes, int count);

  // Returns the GraphProto without the weights: nodes, name, inputs and outputs.
  std::string skeleton() const;
  struct Weight {
    std::string name;
    Tensor tensor;  // of any dtype; written in the element type of its kind
  };
  const std::vector<Weight>& weights() const { return weights_; }

 private:
  std::string nodes_;  // fields of GraphProto
  std::string ends_;   // its inputs and outputs
  std::vector<Weight> weights_;
  int64_t nodes_added_ = 0;
};

}  // namespace booster::onnx
