// The decoders of today's language models: llama, mistral, qwen2 and qwen3, as Hugging Face's
// LlamaForCausalLM and the others: same parameter names, initial distributions and results.
//
//   Model model = models::decoder("llama", {.vocab_size = 8192, .hidden_size = 288,
//                                           .num_hidden_layers = 6, .num_attention_heads = 6});
//
// A block is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)), with
// RMSNorm, rotary positions, grouped queries and SwiGLU.
#pragma once

#include "core/nn/file_form.h"
#include "core/nn/layers.h"
#include "core/nn/rotary.h"

#include <optional>
#include <string>
#include <vector>

namespace booster::models {

// Names are those of Hugging Face's config.json. What is not given follows from the model's name,
// as in its configuration class.
struct DecoderOptions {
  std::optional<int64_t> vocab_size = {};
  std::optional<int64_t> hidden_size = {};
  std::optional<int64_t> intermediate_size = {};  // of the MLP
  std::optional<int64_t> num_hidden_layers = {};
  std::optional<int64_t> num_attention_heads = {};
  std::optional<int64_t> num_key_value_heads = {};  // divides num_attention_heads
  std::optional<int64_t> head_dim = {};
  std::optional<int64_t> max_position_embeddings = {};  // the longest text, in tokens
  std::optional<bool> attention_bias = {};              // llama, qwen3: of all four projections
  std::optional<int64_t> sliding_window = {};     // keys that a query sees, itself included; 0: all
  std::optional<int64_t> max_window_layers = {};  // qwen: layers before this one see all keys
  double rms_norm_eps = 1e-6;
  bool mlp_bias = false;             // llama
  bool tie_word_embeddings = false;  // the head's weight is that of the tokens' embedding
  double attention_dropout = 0;
  double initializer_range = 0.02;
  RotaryOptions rotary = {};  // rotary.max_positions is set from max_position_embeddings
};

// Takes token ids (n, tokens), integers below vocab_size; returns the logits (n, tokens,
// vocab_size) of each next token. Throws for an unknown name, with the nearest one, and for sizes
// that do not fit together.
Model decoder(const std::string& name, DecoderOptions options = {});
std::vector<std::string> decoder_names();
// Returns `options` with a value in every optional.
DecoderOptions decoder_options(const std::string& name, DecoderOptions options = {});

// `options` must have a value in every optional, here and in the modules below.
class DecoderAttention : public Module {
 public:
  DecoderAttention(const std::string& name, const DecoderOptions& options, int64_t layer,
                   std::shared_ptr<const Rotary> rotary);
  // Heads of keys: ranks that share heads cut these.
  int64_t attention_heads() const override { return k_proj.weight.size(0) / head_dim_; }
  Linear &q_proj, &k_proj, &v_proj, &o_proj;

 private:
  Tensor forward(const Tensor& x) override;
  Tensor heads_of(const Tensor& projected, RMSNorm* norm) const;

  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v) const;

  RMSNorm *q_norm_ = nullptr, *k_norm_ = nullptr;  // qwen3
  std::shared_ptr<const Rotary> rotary_;
  int64_t layer_, head_dim_, window_;
  double dropout_;
};

class DecoderMlp : public Module {
 public:
  explicit DecoderMlp(const DecoderOptions& options);
  Linear &gate_proj, &up_proj, &down_proj;

 private:
  Tensor forward(const Tensor& x) override { return down_proj(silu(gate_proj(x)) * up_proj(x)); }
};

class DecoderBlock : public Module {
 public:
  DecoderBlock(const std::string& name, const DecoderOptions& options, int64_t layer,
               std::shared_ptr<const Rotary> rotary);
  DecoderAttention& self_attn;
  DecoderMlp& mlp;
  RMSNorm &input_layernorm, &post_attention_layernorm;

 private:
  Tensor forward(const Tensor& x) override;
};

// Token ids (n, tokens) to normalised features (n, tokens, hidden_size).
class DecoderStack : public Module {
 public:
  DecoderStack(const std::string& name, const DecoderOptions& options);
  Embedding& embed_tokens;
  Sequential& layers;
  RMSNorm& norm;
  // "embedding", each block ("layers.0", ...), and "norm".
  int link_count() const override { return static_cast<int>(layers.size()) + 2; }
  Link link(int i) const override;

 private:
  Tensor forward(const Tensor& ids) override { return forward_links(ids, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
};

class Decoder : public Module, public FileForm {
 public:
  Decoder(const std::string& name, const DecoderOptions& options);
  DecoderStack& model;
  const std::string name;  // "llama"
  const DecoderOptions config;
  // The stack's links. The last one, "head", also computes the logits.
  int link_count() const override { return model.link_count(); }
  Link link(int i) const override;
  // As many tokens as there are positions.
  Tensor example_input(int64_t rows) const override;
  ModuleTraits traits() const override;

  // Files of Hugging Face's base classes have no "model." before names. Some hold tables of
  // frequencies, and some a second copy of a tied head.
  NamedTensor to_file(const NamedTensor& own) const override { return own; }
  NamedTensor from_file(const NamedTensor& stored, const StoredShapes& all) const override;

 private:
  Tensor forward(const Tensor& ids) override { return forward_links(ids, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  const Tensor& head_weight() const {
    return lm_head_ ? lm_head_->weight : model.embed_tokens.weight;
  }

  Linear* lm_head_ = nullptr;  // null if tied
};

}  // namespace booster::models
