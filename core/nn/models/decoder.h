// The modules of models::decoder (core/nn/models.h).
//
// A block is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)), with
// RMSNorm, rotary positions, grouped queries and SwiGLU.
#pragma once

#include "core/nn/models.h"
#include "core/nn/module_traits.h"
#include "core/nn/rotary.h"

#include <memory>
#include <string>

namespace booster::models {

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
  Tensor forward(const Tensor& x) override;
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

  std::optional<int64_t> document_end_;
};

class Decoder : public Module {
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
  // Files of Hugging Face's base classes have no "model." before names. Some hold tables of
  // frequencies, and some a second copy of a tied head.
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& ids) override { return forward_links(ids, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  const Tensor& head_weight() const {
    return lm_head_ ? lm_head_->weight : model.embed_tokens.weight;
  }

  Linear* lm_head_ = nullptr;  // null if tied
};

}  // namespace booster::models
