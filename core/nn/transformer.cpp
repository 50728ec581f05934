// Transformers as torch.nn defines them (Vaswani et al., 2017).
#include "core/nn/functional.h"
#include "core/nn/sequence_layers.h"

namespace booster {
namespace {

LayerNormOptions norms_like(const TransformerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias};
}

// The parts of a layer. They outlive moves of the layer, which owns them.
struct LayerParts {
  MultiheadAttention& self_attn;
  MultiheadAttention* multihead_attn;  // null: an encoder's
  Linear &linear1, &linear2;
  std::vector<LayerNorm*> norms;
  TransformerOptions options;
};

// Makes the parts, in the order of PyTorch's parameters. `add(name, module)` adds one to the layer.
template <class Add>
LayerParts parts_of(const char* kind, const Add& add, int64_t features, int64_t heads,
                    bool reads_memory, const TransformerOptions& o) {
  check(o.activation == "relu" || o.activation == "gelu",
        "{}: unknown activation; got {}, want relu or gelu", kind, o.activation);
  const auto attention = [&](const char* name) -> MultiheadAttention& {
    return add(name, std::make_shared<MultiheadAttention>(
                         features, heads,
                         MultiheadAttentionOptions{
                             .dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first}));
  };
  const auto linear_layer = [&](const char* name, int64_t in, int64_t out) -> Linear& {
    return add(name, std::make_shared<Linear>(in, out, LinearOptions{.bias = o.bias}));
  };
  MultiheadAttention& self_attn = attention("self_attn");
  MultiheadAttention* multihead_attn = reads_memory ? &attention("multihead_attn") : nullptr;
  Linear& linear1 = linear_layer("linear1", features, o.dim_feedforward);
  Linear& linear2 = linear_layer("linear2", o.dim_feedforward, features);
  std::vector<LayerNorm*> norms;
  for (int i = 1; i <= (reads_memory ? 3 : 2); ++i)
    norms.push_back(
        &add("norm" + std::to_string(i), std::make_shared<LayerNorm>(features, norms_like(o))));
  return {self_attn, multihead_attn, linear1, linear2, norms, o};
}

Tensor run_layer(const LayerParts& layer, Tensor x, const AttentionMasks& masks,
                 const Tensor& memory = {}, const AttentionMasks& memory_masks = {}) {
  const TransformerOptions& o = layer.options;
  const bool training = layer.self_attn.training();
  size_t part = 0;
  const auto add_part = [&](const auto& f) {
    LayerNorm& norm = *layer.norms[part++];
    const Tensor y = dropout(f(o.norm_first ? norm(x) : x), o.dropout, training);
    x = o.norm_first ? x + y : norm(x + y);
  };
  add_part([&](const Tensor& z) { return layer.self_attn(z, z, z, masks).output; });
  if (layer.multihead_attn)
    add_part([&](const Tensor& z) {
      return (*layer.multihead_attn)(z, memory, memory, memory_masks).output;
    });
  add_part([&](const Tensor& z) {
    const Tensor wide = layer.linear1(z);
    return layer.linear2(
        dropout(o.activation == "relu" ? relu(wide) : gelu(wide), o.dropout, training));
  });
  return x;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t features, int64_t heads,
                                                 const TransformerOptions& options)
    : EncoderPart("TransformerEncoderLayer") {
  const auto add = [this](const auto& name, auto module) -> auto& {
    return add_existing(name, std::move(module));
  };
  run_ = [parts = parts_of("TransformerEncoderLayer", add, features, heads, false, options)](
             const Tensor& x, const AttentionMasks& masks) { return run_layer(parts, x, masks); };
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t features, int64_t heads,
                                                 const TransformerOptions& options)
    : DecoderPart("TransformerDecoderLayer") {
  const auto add = [this](const auto& name, auto module) -> auto& {
    return add_existing(name, std::move(module));
  };
  run_ = [parts = parts_of("TransformerDecoderLayer", add, features, heads, true, options)](
             const Tensor& target, const Tensor& memory, const AttentionMasks& masks,
             const AttentionMasks& memory_masks) {
    return run_layer(parts, target, masks, memory, memory_masks);
  };
}

namespace {

// Adds layers to a list, and returns them.
template <class Layer>
std::vector<Layer*> append_layers(ModuleList& list, int64_t features, int64_t heads, int64_t count,
                                  const TransformerOptions& o) {
  std::vector<Layer*> layers;
  for (int64_t i = 0; i < count; ++i) {
    const auto layer = std::make_shared<Layer>(features, heads, o);
    list.append(Model(layer));
    layers.push_back(layer.get());
  }
  return layers;
}

}  // namespace

TransformerEncoder::TransformerEncoder(int64_t features, int64_t heads, int64_t count,
                                       const TransformerOptions& options, bool with_norm)
    : EncoderPart("TransformerEncoder") {
  const auto layers = append_layers<TransformerEncoderLayer>(add<ModuleList>("layers"), features,
                                                             heads, count, options);
  LayerNorm* norm =
      with_norm ? &add<LayerNorm>("norm", Shape{features}, norms_like(options)) : nullptr;
  run_ = [layers, norm](Tensor x, const AttentionMasks& masks) {
    for (TransformerEncoderLayer* layer : layers) x = (*layer)(x, masks);
    return norm ? (*norm)(x) : x;
  };
}

TransformerDecoder::TransformerDecoder(int64_t features, int64_t heads, int64_t count,
                                       const TransformerOptions& options, bool with_norm)
    : DecoderPart("TransformerDecoder") {
  const auto layers = append_layers<TransformerDecoderLayer>(add<ModuleList>("layers"), features,
                                                             heads, count, options);
  LayerNorm* norm =
      with_norm ? &add<LayerNorm>("norm", Shape{features}, norms_like(options)) : nullptr;
  run_ = [layers, norm](Tensor x, const Tensor& memory, const AttentionMasks& masks,
                        const AttentionMasks& memory_masks) {
    for (TransformerDecoderLayer* layer : layers) x = (*layer)(x, memory, masks, memory_masks);
    return norm ? (*norm)(x) : x;
  };
}

Transformer::Transformer(int64_t features, int64_t heads, int64_t encoder_layers,
                         int64_t decoder_layers, const TransformerOptions& options)
    : Module("Transformer"),
      encoder(add<TransformerEncoder>("encoder", features, heads, encoder_layers, options, true)),
      decoder(add<TransformerDecoder>("decoder", features, heads, decoder_layers, options, true)) {
  for (const auto& [name, x] : parameters())
    if (x.ndim() > 1) init::xavier_uniform(x);
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& target,
                               const AttentionMasks& source_masks,
                               const AttentionMasks& target_masks,
                               const AttentionMasks& memory_masks) {
  return decoder(target, encoder(source, source_masks), target_masks, memory_masks);
}

Tensors Transformer::forward_named(const Tensors& x) {
  return (*this)(x["source"], x["target"], {}, {.causal = true});
}

}  // namespace booster
