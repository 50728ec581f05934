#include "core/nn/models/decoder.h"

#include "core/autograd/node.h"
#include "core/autograd/tape.h"
#include "core/nn/documents.h"
#include "core/nn/functional.h"
#include "core/nn/key_value_cache.h"
#include "core/tensor/absence.h"
#include "core/tensor/computed_on_use.h"
#include "core/tensor/token_layout.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <algorithm>
#include <utility>

namespace booster::models {
namespace {

// What a name fixes, from Hugging Face's configuration classes.
struct DecoderPreset {
  const char* name;
  int64_t vocab_size, intermediate_size, positions, key_value_heads;
  int64_t head_dim;        // 0: hidden_size / num_attention_heads
  int64_t sliding_window;  // 0: none
  int64_t max_window_layers;
  bool query_bias;          // of queries, keys and values always
  bool query_norm;          // queries and keys are normalised
  bool has_attention_bias;  // attention_bias is an option
};
constexpr DecoderPreset decoder_presets[] = {
    {"llama", 32000, 11008, 2048, 0, 0, 0, 0, false, false, true},
    {"mistral", 32000, 14336, 4096 * 32, 8, 0, 4096, 0, false, false, false},
    {"qwen2", 151936, 22016, 32768, 32, 0, 0, 28, true, false, false},
    {"qwen3", 151936, 22016, 32768, 32, 128, 0, 28, false, true, true}};

const DecoderPreset& decoder_preset(const std::string& name) {
  for (const DecoderPreset& preset : decoder_presets)
    if (name == preset.name) return preset;
  fail("decoder: unknown model; got {}{}", name, legal_names(name, decoder_names()));
}

void check_sizes(const std::string& name, const DecoderOptions& o) {
  for (const auto& [option, value] : {std::pair{"vocab_size", *o.vocab_size},
                                      {"hidden_size", *o.hidden_size},
                                      {"intermediate_size", *o.intermediate_size},
                                      {"num_attention_heads", *o.num_attention_heads},
                                      {"num_key_value_heads", *o.num_key_value_heads},
                                      {"head_dim", *o.head_dim},
                                      {"max_position_embeddings", *o.max_position_embeddings}})
    check(value > 0, "{}: {}; got {}, want 1 or more", name, option, value);
  check(*o.num_hidden_layers >= 0 && *o.sliding_window >= 0,
        "{}: num_hidden_layers {} or sliding_window {} is negative", name, *o.num_hidden_layers,
        *o.sliding_window);
  check(*o.num_attention_heads % *o.num_key_value_heads == 0,
        "{}: heads of keys do not divide those of queries; got {} (num_key_value_heads) and {} "
        "(num_attention_heads)",
        name, *o.num_key_value_heads, *o.num_attention_heads);
  if (o.document_end)
    check(*o.document_end >= 0 && *o.document_end < *o.vocab_size,
          "{}: document_end is no token; got {}, want 0 to {}", name, *o.document_end,
          *o.vocab_size - 1);
  check_rotary_size(*o.head_dim);
  check_rotary(o.rotary);
}

void initialize_decoder(Module& module, double deviation) {
  if (auto* table = dynamic_cast<Embedding*>(&module)) init::normal(table->weight, 0, deviation);
  if (auto* layer = dynamic_cast<Linear*>(&module)) {
    init::normal(layer->weight, 0, deviation);
    if (layer->bias.defined()) init::zeros(layer->bias);
  }
}

}  // namespace

DecoderAttention::DecoderAttention(const std::string& name, const DecoderOptions& options,
                                   int64_t layer, std::shared_ptr<const Rotary> rotary)
    : Module("DecoderAttention"),
      q_proj(add<Linear>("q_proj", *options.hidden_size,
                         *options.num_attention_heads * *options.head_dim,
                         {.bias = decoder_preset(name).query_bias || *options.attention_bias})),
      k_proj(add<Linear>("k_proj", *options.hidden_size,
                         *options.num_key_value_heads * *options.head_dim,
                         {.bias = q_proj.bias.defined()})),
      v_proj(add<Linear>("v_proj", *options.hidden_size,
                         *options.num_key_value_heads * *options.head_dim,
                         {.bias = q_proj.bias.defined()})),
      o_proj(add<Linear>("o_proj", *options.num_attention_heads * *options.head_dim,
                         *options.hidden_size, {.bias = *options.attention_bias})),
      rotary_(std::move(rotary)),
      layer_(layer),
      head_dim_(*options.head_dim),
      window_(layer < *options.max_window_layers ? 0 : *options.sliding_window),
      dropout_(options.attention_dropout) {
  if (!decoder_preset(name).query_norm) return;
  q_norm_ = &add<RMSNorm>("q_norm", head_dim_, {.eps = options.rms_norm_eps});
  k_norm_ = &add<RMSNorm>("k_norm", head_dim_, {.eps = options.rms_norm_eps});
}

// (n, tokens, features) to (n, heads, tokens, head_dim). The features give the number of heads: a
// rank may hold only some.
Tensor DecoderAttention::heads_of(const Tensor& projected, RMSNorm* norm) const {
  const Tensor heads = reshape(projected, {projected.size(0), projected.size(1), -1, head_dim_});
  return transpose(norm ? (*norm)(heads) : heads, 1, 2);
}

Tensor DecoderAttention::forward(const Tensor& x) {
  const Tensor q = heads_of(q_proj(x), q_norm_), k = heads_of(k_proj(x), k_norm_);
  const Tensor y = attended(q, k, heads_of(v_proj(x), nullptr));
  return o_proj(flatten(transpose(y, 1, 2), 2));
}

Tensor DecoderAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const int64_t tokens = q.size(2);
  KeyValueCache* cache = current_cache();
  const Tensor documents = cache ? Tensor() : current_documents();
  RotaryTables tables =
      rotary_->tables(cache ? cache->length() : first_token(tokens), tokens, q.device());
  if (documents.defined()) tables = tables_at(tables, document_positions(documents));
  const Tensor turned_q = rotate(q, tables), turned_k = rotate(k, tables);
  if (cache) return cache->attend(layer_, turned_q, turned_k, v, window_);
  return attention(turned_q, turned_k, v,
                   {.dropout = training() ? dropout_ : 0,
                    .causal = true,
                    .window = window_,
                    .documents = documents});
}

DecoderMlp::DecoderMlp(const DecoderOptions& options)
    : Module("DecoderMlp"),
      gate_proj(add<Linear>("gate_proj", *options.hidden_size, *options.intermediate_size,
                            {.bias = options.mlp_bias})),
      up_proj(add<Linear>("up_proj", *options.hidden_size, *options.intermediate_size,
                          {.bias = options.mlp_bias})),
      down_proj(add<Linear>("down_proj", *options.intermediate_size, *options.hidden_size,
                            {.bias = options.mlp_bias})) {}

namespace {

struct SwigluAgain : Recipe {
  SwigluAgain(const Tensor& gate, const Tensor& up) : gate(gate), up(up) {}
  DType dtype() const override { return gate.get().dtype(); }
  void write(const Tensor& y) const override {
    kernels::on(y.device())
        .binary(kernels::BinaryOp::swiglu, y.view(), gate.get().view(), up.get().view());
  }
  Saved gate, up;
};

// Backward keeps gate and up, from which it computes swiglu again: a third less to keep.
void keep_only_arguments(const Tensor& inner, const Tensor& gate, const Tensor& up) {
  const bool same = inner.dtype() == gate.dtype() && inner.dtype() == up.dtype() &&
                    inner.shape() == gate.shape() && fills_storage(inner);
  if (same && must_record({inner}) && !kernels::is_recording())
    compute_again_on_use(inner, std::make_shared<SwigluAgain>(gate, up));
}

}  // namespace

Tensor DecoderMlp::forward(const Tensor& x) {
  const Tensor gate = gate_proj(x), up = up_proj(x), inner = swiglu(gate, up);
  const Tensor y = down_proj(inner);
  keep_only_arguments(inner, gate, up);
  return y;
}

DecoderBlock::DecoderBlock(const std::string& name, const DecoderOptions& options, int64_t layer,
                           std::shared_ptr<const Rotary> rotary)
    : Module("DecoderBlock"),
      self_attn(add<DecoderAttention>("self_attn", name, options, layer, std::move(rotary))),
      mlp(add<DecoderMlp>("mlp", options)),
      input_layernorm(
          add<RMSNorm>("input_layernorm", *options.hidden_size, {.eps = options.rms_norm_eps})),
      post_attention_layernorm(add<RMSNorm>("post_attention_layernorm", *options.hidden_size,
                                            {.eps = options.rms_norm_eps})) {}

Tensor DecoderBlock::forward(const Tensor& x) {
  const Tensor y = x + self_attn(input_layernorm(x));
  return y + mlp(post_attention_layernorm(y));
}

DecoderStack::DecoderStack(const std::string& name, const DecoderOptions& options)
    : Module("DecoderStack"),
      embed_tokens(add<Embedding>("embed_tokens", *options.vocab_size, *options.hidden_size)),
      layers(add<Sequential>("layers")),
      norm(add<RMSNorm>("norm", *options.hidden_size, {.eps = options.rms_norm_eps})),
      document_end_(options.document_end) {
  const auto rotary = std::make_shared<const Rotary>(*options.head_dim, options.rotary);
  for (int64_t i = 0; i < *options.num_hidden_layers; ++i)
    layers.append(Model(std::make_shared<DecoderBlock>(name, options, i, rotary)));
}

Link DecoderStack::link(int i) const {
  const int count = link_count();
  check(i >= 0 && i < count, "decoder: link out of range; got {} of {}", i, count);
  if (i == 0) return link_of("embedding", {&embed_tokens});
  if (i == count - 1) return link_of("norm", {&norm});
  return link_of(fmt::format("layers.{}", i - 1), {&layers[i - 1]});
}

Tensor DecoderStack::forward_links(const Tensor& x, int first, int last) {
  const int end = link_count() - 1;
  check(first > 0 || (x.ndim() == 2 && !is_floating(x.dtype())),
        "decoder: wrong input; got {} of {}, want ids of tokens (n, tokens), whole numbers",
        x.shape(), name_of(x.dtype()));
  const DocumentScope documents(first == 0 ? x : Tensor(), document_end_);
  Tensor y = first == 0 ? embed_tokens(x) : x;
  for (int i = std::max(first, 1); i < std::min(last, end); ++i) y = layers[i - 1](y);
  return last > end ? norm(y) : y;
}

Decoder::Decoder(const std::string& name, const DecoderOptions& options)
    : Module("Decoder"),
      model(add<DecoderStack>("model", name, options)),
      name(name),
      config(options) {
  if (!options.tie_word_embeddings)
    lm_head_ = &add<Linear>("lm_head", *options.hidden_size, *options.vocab_size, {.bias = false});
  apply([&](Module& module) { initialize_decoder(module, options.initializer_range); });
}

Link Decoder::link(int i) const {
  Link link = model.link(i);
  if (i < link_count() - 1) return link;
  link.name = "head";
  link.tensors.push_back(head_weight());
  return link;
}

Tensor Decoder::example_input(int64_t rows) const {
  return zeros({rows, *config.max_position_embeddings}, {.dtype = DType::i64});
}

Tensor Decoder::forward_links(const Tensor& x, int first, int last) {
  Tensor y = model.run_links(x, first, last);
  if (last < link_count()) return y;
  if (KeyValueCache* cache = current_cache()) y = last_token(y, *cache);
  if (!training()) return lm_head_ ? (*lm_head_)(y) : linear(y, model.embed_tokens.weight);
  if (lm_head_ && lm_head_->must_be_called()) return (*lm_head_)(y);
  return linear_on_use(y, head_weight());
}

namespace {

NamedTensor decoder_tensor(const NamedTensor& stored, const StoredShapes& all, bool tied) {
  if (stored.name.ends_with("rotary_emb.inv_freq")) return {stored.name, {}};
  if (stored.name == "lm_head.weight")
    return {tied ? "model.embed_tokens.weight" : stored.name, stored.tensor};
  const bool is_base = all.contains("embed_tokens.weight");
  return {is_base ? "model." + stored.name : stored.name, stored.tensor};
}

FileForm decoder_form(bool tied) {
  const auto from_file = [tied](const NamedTensor& stored, const StoredShapes& all) {
    return decoder_tensor(stored, all, tied);
  };
  return {.to_file = [](const NamedTensor& own) { return own; }, .from_file = from_file};
}

}  // namespace

ModuleTraits Decoder::traits() const {
  const LayerPlan column = {.style = SplitStyle::column}, row = {.style = SplitStyle::row};
  TensorPlan plan;
  if (lm_head_)
    plan.push_back({"lm_head", {.style = SplitStyle::column, .gather = true}});
  else
    plan.push_back({"model.embed_tokens", {.style = SplitStyle::vocabulary}});
  if (*config.num_hidden_layers > 0) {
    for (const char* layer : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                              "mlp.gate_proj", "mlp.up_proj"})
      plan.push_back({std::string("model.layers.*.") + layer, column});
    for (const char* layer : {"self_attn.o_proj", "mlp.down_proj"})
      plan.push_back({std::string("model.layers.*.") + layer, row});
    if (decoder_preset(name).query_norm)
      for (const char* norm : {"q_norm", "k_norm"})
        plan.push_back(
            {std::string("model.layers.*.self_attn.") + norm, {.style = SplitStyle::shared}});
  }
  return {.tensor_plan = std::move(plan),
          .blocks = "model.layers.*",
          .token_dimension = 1,
          .features = *config.hidden_size,
          .file_form = decoder_form(lm_head_ == nullptr)};
}

std::vector<std::string> decoder_names() {
  std::vector<std::string> names;
  for (const DecoderPreset& preset : decoder_presets) names.emplace_back(preset.name);
  return names;
}

DecoderOptions decoder_options(const std::string& name, DecoderOptions o) {
  const DecoderPreset& preset = decoder_preset(name);
  check(preset.has_attention_bias || !o.attention_bias.value_or(false),
        "{}: attention_bias is not an option of this model", name);
  check(!o.mlp_bias || name == "llama", "{}: mlp_bias is not an option of this model", name);
  o.vocab_size = o.vocab_size.value_or(preset.vocab_size);
  o.hidden_size = o.hidden_size.value_or(4096);
  o.intermediate_size = o.intermediate_size.value_or(preset.intermediate_size);
  o.num_hidden_layers = o.num_hidden_layers.value_or(32);
  o.num_attention_heads = o.num_attention_heads.value_or(32);
  o.num_key_value_heads = o.num_key_value_heads.value_or(
      preset.key_value_heads > 0 ? preset.key_value_heads : *o.num_attention_heads);
  const bool derived = preset.head_dim == 0 && *o.num_attention_heads > 0;
  o.head_dim =
      o.head_dim.value_or(derived ? *o.hidden_size / *o.num_attention_heads : preset.head_dim);
  o.max_position_embeddings = o.max_position_embeddings.value_or(preset.positions);
  o.attention_bias = o.attention_bias.value_or(false);
  o.sliding_window = o.sliding_window.value_or(preset.sliding_window);
  o.max_window_layers = o.max_window_layers.value_or(preset.max_window_layers);
  o.rotary.max_positions = *o.max_position_embeddings;
  check_sizes(name, o);
  return o;
}

Model decoder(const std::string& name, DecoderOptions options) {
  return std::make_shared<Decoder>(name, decoder_options(name, std::move(options)));
}

}  // namespace booster::models
