// Multi-head attention with PyTorch's parameter names (torch.nn.MultiheadAttention, batch first):
// in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias.
#pragma once

#include "core/nn/layers.h"

namespace booster {

struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the probabilities, in training
  bool bias = true;
  bool causal = false;
};

// Calling it with x (batch, tokens, features) computes self-attention.
class MultiHeadAttention : public Module {
 public:
  using Options = MultiHeadAttentionOptions;
  MultiHeadAttention(int64_t features, int64_t heads, MultiHeadAttentionOptions options = {});
  // Lets queries (batch, q, features) attend to keys and values (batch, k, features); `mask` as in
  // attention().
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const Tensor& mask = {});
  std::string options() const override;

  const int64_t heads;
  const Tensor in_proj_weight, in_proj_bias;
  Linear& out_proj;

 private:
  Tensor forward(const Tensor& x) override;
  AttentionOptions attention_options(const Tensor& mask) const;
  // Returns third 0, 1 or 2 of the input projection, split into heads: (batch, heads, tokens, head
  // size).
  Tensor projected(const Tensor& x, int third) const;
  MultiHeadAttentionOptions options_;
};

}  // namespace booster
