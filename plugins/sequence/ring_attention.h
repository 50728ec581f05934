// Attention over ranks that have some of the tokens each: queries stay, keys and values go round.
//
// Each rank sends the keys and values that it has to the next one while it works on them, so that
// no rank holds more than two runs of them, and joins what its queries got from each by their
// log-sum-exps (Liu et al., "Ring attention with blockwise transformers", 2023). Backward, the
// gradients of keys and values go round with them.
#pragma once

#include "core/nn/attention_method.h"
#include "parallel/groups/group.h"

namespace booster {

class RingAttention : public AttentionMethod {
 public:
  // The ranks have equal runs of tokens, in their order; all call attention in the same order.
  explicit RingAttention(Group ranks) : ranks_(std::move(ranks)) {}
  int runs_of_keys() const override { return ranks_.size(); }
  // Error for a mask, which would have to be of all keys.
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionCall& call) const override;
  void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& g,
                const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result,
                const AttentionCall& call) const override;

 private:
  // The call on one rank's keys.
  AttentionCall on_keys_of(int rank, const AttentionCall& call, const Tensor& q,
                           const Tensor& k) const;
  // Whether no query here sees a key of that rank.
  bool is_hidden(int rank, const AttentionCall& call) const {
    return call.causal && rank > ranks_.rank();
  }

  Group ranks_;
};

}  // namespace booster
