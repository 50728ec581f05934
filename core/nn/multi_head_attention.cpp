#include "core/nn/multi_head_attention.h"

#include "core/nn/functional.h"

namespace booster {

MultiHeadAttention::MultiHeadAttention(int64_t features, int64_t heads,
                                       MultiHeadAttentionOptions options)
    : Module("MultiHeadAttention"),
      heads(heads),
      in_proj_weight(add_parameter("in_proj_weight", empty({3 * features, features}),
                                   Role::linear_weight)),
      in_proj_bias(add_parameter("in_proj_bias", options.bias ? zeros({3 * features}) : Tensor())),
      out_proj(add<Linear>("out_proj", features, features, LinearOptions{.bias = options.bias})),
      options_(options) {
  check(heads > 0 && features % heads == 0,
        "MultiHeadAttention: heads do not divide the features; got {} heads of {} features", heads,
        features);
  init::xavier_uniform(in_proj_weight);
  if (options.bias) init::zeros(out_proj.bias);
}

std::string MultiHeadAttention::options() const {
  return fmt::format("{}, heads={}", in_proj_weight.size(1), heads);
}

AttentionOptions MultiHeadAttention::attention_options(const Tensor& mask) const {
  return {.mask = mask, .dropout = training() ? options_.dropout : 0, .causal = options_.causal};
}

Tensor MultiHeadAttention::forward(const Tensor& x) {
  if (x.ndim() != 3)
    fail("MultiHeadAttention: wrong shape; got {}, want (batch, tokens, features)", x.shape());
  const Tensor qkv = linear(x, in_proj_weight, in_proj_bias);
  const Shape split = {x.size(0), x.size(1), 3, heads, in_proj_weight.size(1) / heads};
  return out_proj(attention_packed(reshape(qkv, split), attention_options({})));
}

Tensor MultiHeadAttention::projected(const Tensor& x, int third) const {
  if (x.ndim() != 3)
    fail("MultiHeadAttention: wrong shape; got {}, want (batch, tokens, features)", x.shape());
  const int64_t features = in_proj_weight.size(1);
  const Tensor weight = narrow(in_proj_weight, 0, third * features, features);
  const Tensor bias =
      in_proj_bias.defined() ? narrow(in_proj_bias, 0, third * features, features) : Tensor();
  const Tensor y = linear(x, weight, bias);
  return transpose(reshape(y, {x.size(0), x.size(1), heads, features / heads}), 1, 2);
}

Tensor MultiHeadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Tensor& mask) {
  const Tensor y = attention(projected(query, 0), projected(key, 1), projected(value, 2),
                             attention_options(mask));
  return out_proj(reshape(transpose(y, 1, 2), query.shape()));
}

}  // namespace booster
