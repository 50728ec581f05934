#include "booster/export/onnx_layers.h"

#include <cmath>
#include <numbers>

namespace booster::onnx {

using Value = Graph::Value;
using Sizes = std::vector<int64_t>;

// The operator Gemm only takes matrices, so the weight is transposed for MatMul; runtimes fold the
// transpose once, when they load the graph.
Value Layers::linear(const std::string& name, const Value& x) {
  const Value turned =
      graph_.add("Transpose", {weight(name + ".weight")}, {attribute("perm", Sizes{1, 0})});
  const Value product = graph_.add("MatMul", {x, turned});
  return has(name + ".bias") ? graph_.add("Add", {product, weight(name + ".bias")}) : product;
}

Value Layers::conv2d(const std::string& name, const Value& x, int64_t stride, int64_t padding) {
  std::vector<Value> inputs = {x, weight(name + ".weight")};
  if (has(name + ".bias")) inputs.push_back(weight(name + ".bias"));
  const Tensor& kernel = tensor(name + ".weight");
  return graph_.add("Conv", inputs,
                    {attribute("kernel_shape", Sizes{kernel.size(2), kernel.size(3)}),
                     attribute("strides", Sizes{stride, stride}),
                     attribute("pads", Sizes{padding, padding, padding, padding})});
}

Value Layers::batch_norm(const std::string& name, const Value& x, double eps) {
  return graph_.add("BatchNormalization",
                    {x, weight(name + ".weight"), weight(name + ".bias"),
                     weight(name + ".running_mean"), weight(name + ".running_var")},
                    {attribute("epsilon", eps)});
}

Value Layers::layer_norm(const std::string& name, const Value& x, double eps) {
  return graph_.add("LayerNormalization", {x, weight(name + ".weight"), weight(name + ".bias")},
                    {attribute("axis", int64_t{-1}), attribute("epsilon", eps)});
}

// x Phi(x), by erf or by the tanh approximation (Hendrycks and Gimpel, 2016). The Gelu operator
// only exists from operator set 20 on.
Value Layers::gelu(const Value& x, GeluForm form) {
  Value wave;
  if (form == GeluForm::erf) {
    wave = graph_.add("Erf", {graph_.add("Mul", {x, graph_.number(1 / std::numbers::sqrt2)})});
  } else {
    const Value cube = graph_.add("Mul", {graph_.add("Mul", {x, x}), x});
    const Value sum = graph_.add("Add", {x, graph_.add("Mul", {cube, graph_.number(0.044715)})});
    const double factor = std::sqrt(2 / std::numbers::pi);
    wave = graph_.add("Tanh", {graph_.add("Mul", {sum, graph_.number(factor)})});
  }
  const Value half = graph_.add("Mul", {x, graph_.number(0.5)});
  return graph_.add("Mul", {half, graph_.add("Add", {wave, graph_.number(1)})});
}

// softmax(q k^T / sqrt(size)) v (Vaswani et al., 2017), head by head.
Value Layers::attention(const Value& packed, int64_t heads, int64_t size) {
  const Value split = graph_.add("Reshape", {packed, graph_.integers({0, 0, 3, heads, size})});
  const Value apart = graph_.add("Transpose", {split}, {attribute("perm", Sizes{2, 0, 3, 1, 4})});
  const auto part = [&](int64_t i) {
    return graph_.add("Gather", {apart, graph_.index(i)}, {attribute("axis", int64_t{0})});
  };
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const Value query = graph_.add("Mul", {part(0), graph_.number(scale)});
  const Value key = graph_.add("Transpose", {part(1)}, {attribute("perm", Sizes{0, 1, 3, 2})});
  const Value shares =
      graph_.add("Softmax", {graph_.add("MatMul", {query, key})}, {attribute("axis", int64_t{-1})});
  const Value seen = graph_.add("MatMul", {shares, part(2)});
  const Value beside = graph_.add("Transpose", {seen}, {attribute("perm", Sizes{0, 2, 1, 3})});
  return graph_.add("Reshape", {beside, graph_.integers({0, 0, heads * size})});
}

}  // namespace booster::onnx
