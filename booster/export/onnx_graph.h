// A graph of ONNX operators (github.com/onnx/onnx/blob/main/docs/IR.md) while it is put together.
// Values are called by name. One thread.
#pragma once

#include "booster/export/protobuf.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace booster::onnx {

// An attribute of an operator, as AttributeProto.
protobuf::Message attribute(const std::string& name, int64_t value);
protobuf::Message attribute(const std::string& name, double value);
protobuf::Message attribute(const std::string& name, const std::vector<int64_t>& values);

class Graph {
 public:
  using Value = std::string;
  // Sizes; a name stands for one that differs from run to run ("batch").
  using Dimensions = std::vector<std::string>;

  Value input(const std::string& name, const Dimensions& dimensions);
  void output(const Value& value, const std::string& name, const Dimensions& dimensions);
  // A tensor under the name that it has in the model.
  Value weight(const std::string& name, const Tensor& tensor);
  // The graph's own numbers: a list, such as a shape; one index; one of f32.
  Value integers(const std::vector<int64_t>& values);
  Value index(int64_t value);
  Value number(double value);
  // The result of an operator of the default set.
  Value add(const std::string& operation, const std::vector<Value>& inputs,
            const std::vector<protobuf::Message>& attributes = {});

  // GraphProto without the weights: nodes, name, inputs and outputs.
  std::string skeleton() const;
  struct Weight {
    std::string name;
    Tensor tensor;  // i64 stays, other dtypes become f32 when they are written
  };
  const std::vector<Weight>& weights() const { return weights_; }

 private:
  Value constant(const Tensor& tensor);

  std::string nodes_;  // fields of GraphProto
  std::string ends_;   // its inputs and outputs
  std::vector<Weight> weights_;
  int64_t nodes_added_ = 0;
};

}  // namespace booster::onnx
