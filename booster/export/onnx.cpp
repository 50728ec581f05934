#include "booster/export/onnx.h"

#include "booster/export/onnx_file.h"
#include "booster/export/onnx_layers.h"
#include "core/autograd/tape.h"
#include "core/nn/models/resnet.h"
#include "core/nn/models/vit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>

namespace booster {

namespace {

using onnx::attribute;
using onnx::Graph;
using onnx::Layers;
using Value = Graph::Value;
using Sizes = std::vector<int64_t>;

constexpr double batch_norm_eps = 1e-5;  // ResNet-20's

Value vit_embedding(Graph& graph, Layers& layers, const Value& image) {
  const Tensor& kernel = layers.tensor("patch_embed.proj.weight");
  const int64_t patch = kernel.size(2), features = kernel.size(0);
  const Value grid = layers.conv2d("patch_embed.proj", image, patch, 0);
  // Not -1, which stands for no number in an empty batch.
  const int64_t patch_count = layers.tensor("pos_embed").size(1) - 1;
  const Value rows = graph.add("Reshape", {grid, graph.integers({0, features, patch_count})});
  const Value patches = graph.add("Transpose", {rows}, {attribute("perm", Sizes{0, 2, 1})});
  const Value batch =
      graph.add("Shape", {image}, {attribute("start", int64_t{0}), attribute("end", int64_t{1})});
  const Value shape =
      graph.add("Concat", {batch, graph.integers({1, features})}, {attribute("axis", int64_t{0})});
  const Value token = graph.add("Expand", {layers.weight("cls_token"), shape});
  const Value all = graph.add("Concat", {token, patches}, {attribute("axis", int64_t{1})});
  return graph.add("Add", {all, layers.weight("pos_embed")});
}

Value vit(Graph& graph, Layers& layers, const models::VisionTransformer& model,
          const Value& image) {
  Value x = vit_embedding(graph, layers, image);
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const auto& block = dynamic_cast<const models::VitBlock&>(model.blocks[i]);
    const std::string name = fmt::format("blocks.{}.", i);
    const int64_t heads = block.attn.attention_heads();
    const Value first = layers.layer_norm(name + "norm1", x, block.norm1.eps);
    const Value seen = layers.attention(layers.linear(name + "attn.qkv", first), heads,
                                        block.attn.proj.weight.size(1) / heads);
    x = graph.add("Add", {x, layers.linear(name + "attn.proj", seen)});
    const Value second = layers.layer_norm(name + "norm2", x, block.norm2.eps);
    const Value hidden = layers.gelu(layers.linear(name + "mlp.fc1", second), block.mlp.act.form);
    x = graph.add("Add", {x, layers.linear(name + "mlp.fc2", hidden)});
  }
  const Value token = graph.add("Gather", {x, graph.index(0)}, {attribute("axis", int64_t{1})});
  const Value features = layers.layer_norm("norm", token, model.norm.eps);
  return layers.has("head.weight") ? layers.linear("head", features) : features;
}

Value residual_block(Graph& graph, Layers& layers, const std::string& name, const Value& x) {
  const Tensor& kernel = layers.tensor(name + ".conv1.weight");
  const int64_t added = kernel.size(0) - kernel.size(1), stride = added > 0 ? 2 : 1;
  const Value inner = graph.add(
      "Relu", {layers.batch_norm(name + ".bn1", layers.conv2d(name + ".conv1", x, stride, 1),
                                 batch_norm_eps)});
  const Value branch =
      layers.batch_norm(name + ".bn2", layers.conv2d(name + ".conv2", inner, 1, 1), batch_norm_eps);
  Value shortcut = x;
  if (added > 0) {
    const Value kept =
        graph.add("AveragePool", {x},
                  {attribute("kernel_shape", Sizes{1, 1}), attribute("strides", Sizes{2, 2})});
    shortcut = graph.add("Pad", {kept, graph.integers({0, 0, 0, 0, 0, added, 0, 0})});
  }
  return graph.add("Relu", {graph.add("Add", {branch, shortcut})});
}

Value resnet20(Graph& graph, Layers& layers, const models::ResNet20& model, const Value& image) {
  Value x = graph.add(
      "Relu", {layers.batch_norm("bn1", layers.conv2d("conv1", image, 1, 1), batch_norm_eps)});
  const Sequential* stages[] = {&model.layer1, &model.layer2, &model.layer3};
  for (int stage = 0; stage < 3; ++stage)
    for (int64_t i = 0; i < stages[stage]->size(); ++i)
      x = residual_block(graph, layers, fmt::format("layer{}.{}", stage + 1, i), x);
  const Value pooled = graph.add("GlobalAveragePool", {x});
  return layers.linear("fc", graph.add("Flatten", {pooled}, {attribute("axis", int64_t{1})}));
}

Value sequence(Graph& graph, Layers& layers, const Sequential& model, Value x) {
  for (int64_t i = 0; i < model.size(); ++i) {
    const std::string& kind = model[i].kind();
    if (kind == "Linear")
      x = layers.linear(fmt::format("{}", i), x);
    else if (kind == "ReLU")
      x = graph.add("Relu", {x});
    else if (kind == "Flatten")
      x = graph.add("Flatten", {x}, {attribute("axis", int64_t{1})});
    else if (const auto* gelu = dynamic_cast<const GELU*>(&model[i]))
      x = layers.gelu(x, gelu->form);
    else
      check(kind == "Dropout",
            "onnx: no such layer; got {}, want Linear, ReLU, GELU, Flatten or "
            "Dropout",
            kind);
  }
  return x;
}

Value output_of(Graph& graph, Layers& layers, const Module& model, const Value& input) {
  if (const auto* resnet = dynamic_cast<const models::ResNet20*>(&model))
    return resnet20(graph, layers, *resnet, input);
  if (const auto* transformer = dynamic_cast<const models::VisionTransformer*>(&model))
    return vit(graph, layers, *transformer, input);
  if (const auto* layer_by_layer = dynamic_cast<const Sequential*>(&model))
    return sequence(graph, layers, *layer_by_layer, input);
  fail("onnx: no such model; got {}, want VisionTransformer, ResNet20 or a Sequential of layers",
       model.kind());
}

// A ResNet takes images of any size.
Graph::Dimensions input_dimensions(const Module& model, const Shape& sample) {
  Graph::Dimensions dimensions = {"batch"};
  for (const int64_t size : sample) dimensions.push_back(std::to_string(size));
  if (!dynamic_cast<const models::ResNet20*>(&model) || sample.ndim() != 3) return dimensions;
  return {"batch", dimensions[1], "height", "width"};
}

// In evaluation while it exists.
class Evaluation {
 public:
  explicit Evaluation(const Model& model) : model_(model), trained_(model->training()) {
    model_.eval();
  }
  ~Evaluation() { model_.train(trained_); }
  Evaluation(const Evaluation&) = delete;

 private:
  const Model& model_;
  bool trained_;
};

// The shape of the model's output for one sample; the model says what is wrong with it.
Shape output_shape(const Model& model, const Shape& sample, const Tensor& like) {
  const Evaluation evaluation(model);
  const NoGradGuard no_grad;
  std::vector<int64_t> batch = {1};
  for (const int64_t size : sample) batch.push_back(size);
  return model(zeros(Shape(batch), {like.dtype(), like.device()})).shape();
}

}  // namespace

void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options) {
  Graph graph;
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : model.state_dict()) weights.emplace(name, tensor);
  check(!weights.empty(), "onnx: a model without weights");
  const Tensor like = weights.begin()->second;
  Layers layers(graph, std::move(weights));
  // A model without a graph is refused before it is run: it might not take such a sample.
  const Value input = graph.input("input", input_dimensions(model.module(), sample));
  const Value output = output_of(graph, layers, model.module(), input);
  const Shape result = output_shape(model, sample, like);
  Graph::Dimensions ends = {"batch"};
  for (int i = 1; i < result.ndim(); ++i) ends.push_back(std::to_string(result[i]));
  graph.output(output, "logits", ends);
  std::vector<std::pair<std::string, std::string>> metadata;
  if (!options.classes.empty())
    metadata.emplace_back("classes",
                          nlohmann::json(options.classes)
                              .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  onnx::write_onnx(file, graph, metadata);
}

}  // namespace booster
