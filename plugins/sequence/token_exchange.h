// Exchanges between sequence-sharded ranks: activations (batch, tokens, features) are split along
// the tokens in the group's rank order. All functions are on the tape and collective: all ranks of
// the group call them in the same order.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"

namespace booster {

// Throws, with the numbers of ranks that fit, if the tokens do not divide evenly.
void check_tokens_divide(int64_t tokens, int ranks);

// own_tokens enters a region that computes on this rank's tokens; all_tokens leaves it. Gradients
// inside are `factor` times the gradients outside. If the factor is the number of ranks, the mean
// of a parameter's gradients over the ranks becomes their sum.
//
// Returns this rank's tokens of x, which all ranks have. Throws as check_tokens_divide().
Tensor own_tokens(const Tensor& x, const Group& group, double factor);
// Returns all tokens, for work that all ranks repeat.
Tensor all_tokens(const Tensor& x, const Group& group, double factor);

// Returns all tokens, for work that is split over the ranks: gradients are summed.
Tensor tokens_for_parts(const Tensor& x, const Group& group);
// Returns this rank's tokens of the sum of all ranks' y.
Tensor own_tokens_of_sum(const Tensor& y, const Group& group);

// Exchange this rank's tokens with all heads for all tokens with this rank's heads, and back. x is
// (batch, tokens, features); its features are `matrices` matrices in sequence, each with all heads.
Tensor tokens_to_heads(const Tensor& x, int64_t matrices, const Group& group);
Tensor heads_to_tokens(const Tensor& x, int64_t matrices, const Group& group);

}  // namespace booster
