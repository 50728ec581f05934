// Layers as ONNX operators. `name` is the layer's name in the model ("blocks.0.attn"); its weights
// keep their names. Dropout is left out: the graph is for inference.
#pragma once

#include "booster/export/onnx_graph.h"
#include "core/nn/functional.h"

#include <map>
#include <string>

namespace booster::onnx {

class Layers {
 public:
  using Value = Graph::Value;
  Layers(Graph& graph, std::map<std::string, Tensor> weights)
      : graph_(graph), weights_(std::move(weights)) {}

  bool has(const std::string& tensor) const { return weights_.contains(tensor); }
  const Tensor& tensor(const std::string& name) const { return weights_.at(name); }
  Value weight(const std::string& name) { return graph_.weight(name, weights_.at(name)); }

  // (..., in) to (..., out)
  Value linear(const std::string& name, const Value& x);
  Value conv2d(const std::string& name, const Value& x, int64_t stride, int64_t padding);
  Value batch_norm(const std::string& name, const Value& x, double eps);
  Value layer_norm(const std::string& name, const Value& x, double eps);
  Value gelu(const Value& x, GeluForm form);
  // (batch, tokens, 3 x features), packed as (3, heads, size), to (batch, tokens, features)
  Value attention(const Value& packed, int64_t heads, int64_t size);

 private:
  Graph& graph_;
  std::map<std::string, Tensor> weights_;
};

}  // namespace booster::onnx
