#include "core/nn/sequence_layers.h"

#include "core/nn/functional.h"

#include <cmath>
#include <limits>

namespace booster {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// Returns torch.nn's mask as attention()'s: true for visible keys. Floating masks stay.
Tensor as_visible(const Tensor& mask) {
  check(mask.dtype() == DType::boolean || is_floating(mask.dtype()),
        "MultiheadAttention: a mask has the wrong dtype; got {}, want bool (true for hidden keys) "
        "or a floating one (added)",
        name_of(mask.dtype()));
  return mask.dtype() == DType::boolean ? logical_not(mask) : mask;
}

// Returns a mask of visible keys as one that is added.
Tensor as_added(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return cast(mask, dtype);
  const TensorOptions options = {dtype, mask.device()};
  return where(mask, zeros({}, options), full({}, minus_infinity, options));
}

// Returns both masks as one, which broadcasts to the scores (batch, heads, queries, keys).
Tensor joined_masks(const AttentionMasks& masks, const Shape& scores, DType dtype) {
  Tensor padding, each;
  if (masks.key_padding.defined()) {
    const Shape want = {scores[0], scores[3]};
    check(masks.key_padding.shape() == want,
          "MultiheadAttention: key_padding has the wrong shape; got {}, want {}",
          masks.key_padding.shape(), want);
    padding = reshape(as_visible(masks.key_padding), {scores[0], 1, 1, scores[3]});
  }
  if (masks.attention.defined()) {
    const Shape one = {scores[2], scores[3]}, all = {scores[0] * scores[1], scores[2], scores[3]};
    const Shape& shape = masks.attention.shape();
    check(shape == one || shape == all,
          "MultiheadAttention: attention mask has the wrong shape; got {}, want {} or {}", shape,
          one, all);
    each = as_visible(masks.attention);
    if (shape == all) each = reshape(each, scores);
  }
  if (!padding.defined() || !each.defined()) {
    const Tensor& only = padding.defined() ? padding : each;
    return only.defined() && is_floating(only.dtype()) ? cast(only, dtype) : only;
  }
  if (padding.dtype() == DType::boolean && each.dtype() == DType::boolean)
    return logical_and(padding, each);
  return as_added(padding, dtype) + as_added(each, dtype);
}

// Returns the probabilities (batch, heads, queries, keys).
Tensor shares_of_keys(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  Tensor scores = matmul(q * scale, transpose(k, -2, -1));
  if (mask.defined()) scores = scores + as_added(mask, scores.dtype());
  if (causal) {
    const Tensor later = triu(ones({q.size(2), k.size(2)}, {DType::f32, q.device()}), 1);
    scores = masked_fill(scores, greater(later, 0), minus_infinity);
  }
  return softmax(scores, -1);
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t features, int64_t heads,
                                       MultiheadAttentionOptions options)
    : Module("MultiheadAttention"),
      heads(heads),
      in_proj_weight(
          add_parameter("in_proj_weight",
                        options.kdim || options.vdim ? Tensor() : empty({3 * features, features}),
                        Role::linear_weight)),
      q_proj_weight(add_parameter("q_proj_weight",
                                  in_proj_weight.defined() ? Tensor() : empty({features, features}),
                                  Role::linear_weight)),
      k_proj_weight(add_parameter(
          "k_proj_weight",
          in_proj_weight.defined() ? Tensor() : empty({features, options.kdim.value_or(features)}),
          Role::linear_weight)),
      v_proj_weight(add_parameter(
          "v_proj_weight",
          in_proj_weight.defined() ? Tensor() : empty({features, options.vdim.value_or(features)}),
          Role::linear_weight)),
      in_proj_bias(add_parameter("in_proj_bias", options.bias ? zeros({3 * features}) : Tensor())),
      out_proj(add<Linear>("out_proj", features, features, LinearOptions{.bias = options.bias})),
      options_(options) {
  check(heads > 0 && features % heads == 0,
        "MultiheadAttention: heads do not divide the features; got {} heads of {} features", heads,
        features);
  for (const Tensor& weight : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (weight.defined()) init::xavier_uniform(weight);
  if (options.bias) init::zeros(out_proj.bias);
}

std::string MultiheadAttention::options() const {
  return fmt::format("{}, heads={}, batch_first={}", out_proj.weight.size(1), heads,
                     options_.batch_first);
}

namespace {

// Returns third 0, 1 or 2 of the input projection of x (batch, tokens, features), split into heads:
// (batch, heads, tokens, head size).
Tensor projected(const MultiheadAttention& layer, const Tensor& x, int third) {
  const int64_t features = layer.out_proj.weight.size(1);
  const Tensor whole[] = {layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight};
  const auto part = [&](const Tensor& all) {
    return all.defined() ? narrow(all, 0, third * features, features) : all;
  };
  const bool joint = layer.in_proj_weight.defined();
  const Tensor y =
      linear(x, joint ? part(layer.in_proj_weight) : whole[third], part(layer.in_proj_bias));
  return transpose(reshape(y, {x.size(0), x.size(1), layer.heads, features / layer.heads}), 1, 2);
}

}  // namespace

Tensor MultiheadAttention::forward(const Tensor& x) {
  if (!in_proj_weight.defined() || x.ndim() != 3) return (*this)(x, x, x).output;
  const Tensor rows = options_.batch_first ? x : transpose(x, 0, 1);
  const Tensor qkv = linear(rows, in_proj_weight, in_proj_bias);
  const Shape split = {rows.size(0), rows.size(1), 3, heads, in_proj_weight.size(1) / heads};
  const Tensor y =
      attention_packed(reshape(qkv, split),
                       {.dropout = training() ? options_.dropout : 0, .causal = options_.causal});
  const Tensor out = out_proj(y);
  return options_.batch_first ? out : transpose(out, 0, 1);
}

MultiheadAttention::Output MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                                          const Tensor& value,
                                                          const AttentionMasks& masks,
                                                          bool need_weights) const {
  const Tensor* given[] = {&query, &key, &value};
  for (const Tensor* x : given)
    if ((x->ndim() != 2 && x->ndim() != 3) || x->ndim() != query.ndim())
      fail("MultiheadAttention: wrong shape; got {}, want ({}, features) or (tokens, features)",
           x->shape(), options_.batch_first ? "batch, tokens" : "tokens, batch");
  const bool batched = query.ndim() == 3, turns = batched && !options_.batch_first;
  const auto rows = [&](const Tensor& x) {
    return turns ? transpose(x, 0, 1) : batched ? x : unsqueeze(x, 0);
  };
  const Tensor q = projected(*this, rows(query), 0), k = projected(*this, rows(key), 1),
               v = projected(*this, rows(value), 2);
  AttentionMasks all = masks;
  if (!batched && all.key_padding.defined()) all.key_padding = unsqueeze(all.key_padding, 0);
  const Tensor mask = joined_masks(all, {q.size(0), heads, q.size(2), k.size(2)}, q.dtype());
  const bool causal = options_.causal || masks.causal;
  const double drop = training() ? options_.dropout : 0;
  Tensor y, weights;
  if (need_weights) {
    const Tensor p = dropout(shares_of_keys(q, k, mask, causal), drop);
    y = matmul(p, v);
    weights = mean(p, {1});
  } else {
    y = attention(q, k, v, {.mask = mask, .dropout = drop, .causal = causal});
  }
  y = out_proj(reshape(transpose(y, 1, 2), {q.size(0), q.size(2), out_proj.weight.size(1)}));
  if (!batched) return {squeeze(y, 0), weights.defined() ? squeeze(weights, 0) : weights};
  return {turns ? transpose(y, 0, 1) : y, weights};
}

}  // namespace booster
