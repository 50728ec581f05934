// Attention over sequence-sharded ranks: queries stay, keys and values circulate in a ring.
//
// Each rank sends its current keys and values to the next rank while it computes with them, so no
// rank holds more than two blocks of them. It joins its queries' results from all blocks by their
// log-sum-exps (Liu et al., "Ring attention with blockwise transformers", 2023). Backward, the
// gradients of keys and values circulate with them.
#pragma once

#include "core/nn/attention_method.h"
#include "parallel/groups/group.h"

namespace booster {

class RingAttention : public AttentionMethod {
 public:
  // Joins `ranks`, which hold equal blocks of tokens in rank order. All call attention in the same
  // order.
  explicit RingAttention(Group ranks) : ranks_(std::move(ranks)) {}
  int runs_of_keys() const override { return ranks_.size(); }
  // Throws for a mask, which would have to cover all keys.
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionCall& call) const override;
  void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& g,
                const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result,
                const AttentionCall& call) const override;

 private:
  // Returns the attention call for the keys of one rank.
  AttentionCall on_keys_of(int rank, const AttentionCall& call, const Tensor& q,
                           const Tensor& k) const;
  // Returns whether no query on this rank sees a key of that rank.
  bool is_hidden(int rank, const AttentionCall& call) const {
    return call.causal && rank > ranks_.rank();
  }

  Group ranks_;
};

}  // namespace booster
