// The modules of models::gpt2 (core/nn/models.h).
//
// Layers are plain Linear with (out, in) weights, which precision strategies and plugins know.
// Hugging Face uses Conv1D with (in, out), and files keep that form. The model's file form
// transposes c_attn, c_fc and both c_proj on loading and saving.
#pragma once

#include "core/nn/models.h"
#include "core/nn/module_traits.h"
#include "core/nn/residual_stream.h"

#include <vector>

namespace booster::models {

// `options` must have a value in every optional, here and in the modules below.
class Gpt2Attention : public Module {
 public:
  Gpt2Attention(const Gpt2Options& options, int64_t layer);
  int64_t attention_heads() const override { return c_proj.weight.size(1) / head_size_; }
  Linear& c_attn;  // queries, keys, values, each for all heads
  Linear& c_proj;
  Dropout& resid_dropout;

 private:
  Tensor forward(const Tensor& x) override;
  int64_t layer_, head_size_;
  double attn_pdrop_;
};

class Gpt2Mlp : public Module {
 public:
  explicit Gpt2Mlp(const Gpt2Options& options);
  Linear& c_fc;
  GELU& act;
  Linear& c_proj;
  Dropout& dropout;

 private:
  Tensor forward(const Tensor& x) override;
};

class Gpt2Block : public Module {
 public:
  Gpt2Block(const Gpt2Options& options, int64_t layer);
  // x + attn(ln_1(x)), then the same with the MLP.
  ResidualStream advance(const ResidualStream& stream);
  LayerNorm& ln_1;
  Gpt2Attention& attn;
  LayerNorm& ln_2;
  Gpt2Mlp& mlp;

 private:
  Tensor forward(const Tensor& x) override { return advance({x, {}}).sum(); }
};

// Token ids (n, tokens) to normalised features (n, tokens, n_embd).
class Gpt2Transformer : public Module {
 public:
  explicit Gpt2Transformer(const Gpt2Options& options);
  Embedding& wte;  // of tokens
  Embedding& wpe;  // of positions
  Dropout& drop;
  Sequential& h;
  LayerNorm& ln_f;
  // "embedding", each block ("h.0", ...), and "ln_f".
  int link_count() const override { return static_cast<int>(each_block_.size()) + 2; }
  Link link(int i) const override;

 private:
  Tensor forward(const Tensor& ids) override { return forward_links(ids, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  Tensor embedded(const Tensor& ids);
  std::vector<Gpt2Block*> each_block_;
  std::optional<int64_t> document_end_;
};

class Gpt2 : public Module {
 public:
  explicit Gpt2(const Gpt2Options& options);
  Gpt2Transformer& transformer;
  const Gpt2Options config;
  // The transformer's links. The last one, "head", also computes the logits, with the first link's
  // wte.weight.
  int link_count() const override { return transformer.link_count(); }
  Link link(int i) const override;
  // As many tokens as there are positions.
  Tensor example_input(int64_t rows) const override;
  // Published files have no "transformer." before names. Older ones hold attention masks
  // ("h.0.attn.bias"); some hold the head ("lm_head.weight"), a second copy of wte.weight.
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& ids) override { return forward_links(ids, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
};

}  // namespace booster::models
