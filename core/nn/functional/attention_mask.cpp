// Attention by differentiable functions: the gradient of a learned mask, such as a table of
// relative positions, and second derivatives.
#include "core/autograd/functions.h"
#include "core/nn/arguments.h"
#include "core/nn/attention_method.h"
#include "kernels/catalogue.h"

#include <limits>

namespace booster {
namespace {

// Returns the probabilities (batch, heads, queries, keys), which the kernels compute block by
// block; 0 for hidden keys.
Tensor probabilities(const Tensor& q, const Tensor& k, const Tensor& mask,
                     const AttentionCall& call) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(mul(q, call.scale), transpose(k, -2, -1));
  if (mask.defined() && mask.dtype() == DType::boolean)
    scores = masked_fill(scores, logical_not(mask), -infinity);
  else if (mask.defined())
    scores = add(scores, cast(mask, scores.dtype()));
  if (const Tensor& first = call.first_keys; first.defined()) {
    const Tensor key = arange(k.size(2)).to(k.device());
    const Tensor before = less(key, reshape(first, {first.size(0), 1, first.size(1), 1}));
    scores = masked_fill(scores, before, -infinity);
  }
  if (call.causal) {
    const Tensor all = ones({scores.size(-2), scores.size(-1)}, {scores.dtype(), scores.device()});
    scores = masked_fill(scores, equal(tril(all), 0.0), -infinity);
  }
  // A query without visible keys has no probabilities; softmax of only -infinity would give nan.
  return masked_fill(softmax(scores, -1), equal(amax(scores, {-1}, true), -infinity), 0);
}

// Returns the kernels' factors: 0 where dropout drops a probability, 1 / (1 - dropout) elsewhere.
Tensor kept(const Tensor& like, const AttentionCall& call) {
  const Tensor keep = empty_like(like);
  kernels::on(like.device())
      .dropout(keep.view(), ones_like(like).view(), call.dropout, call.position);
  return keep;
}

}  // namespace

Tensor mask_gradient(const Tensor& g, const Tensor& queries, const Tensor& keys,
                     const Tensor& values, const Tensor& result, const AttentionCall& call) {
  const DType exact = arguments::statistics_dtype(g);
  const Tensor dy = cast(g, exact), out = cast(result, exact), v = cast(values, exact);
  const Tensor p = probabilities(cast(queries, exact), cast(keys, exact), call.mask, call);
  Tensor dp = matmul(dy, transpose(v, -2, -1));
  if (call.dropout > 0) dp = mul(dp, kept(dp, call));
  const Tensor ds = mul(p, sub(dp, sum(mul(dy, out), {-1}, true)));
  return cast(untracked::sum_to(ds, call.mask.shape()), call.mask.dtype());
}

Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          const AttentionCall& call) {
  check(call.dropout == 0,
        "attention: with dropout it cannot be differentiated twice; got dropout {}, want 0",
        call.dropout);
  const DType exact = arguments::statistics_dtype(q);
  const Tensor p = probabilities(cast(q, exact), cast(k, exact), mask, call);
  return cast(matmul(p, cast(v, exact)), q.dtype());
}

}  // namespace booster
