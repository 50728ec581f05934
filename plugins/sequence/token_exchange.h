// What ranks exchange that have some of the tokens each: activations (batch, tokens, features), cut
// along the tokens in the order of the group's ranks. All functions are on the tape, and all ranks
// of the group call them in the same order.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"

namespace booster {

// Error, with the numbers of ranks that would do, if the tokens do not divide among the ranks.
void check_tokens_divide(int64_t tokens, int ranks);

// Into and out of what runs on some tokens. Gradients inside are `factor` times what they are
// outside: with the number of ranks, a mean over the ranks of a parameter's gradients is their sum.
//
// This rank's tokens of x, which all ranks have. Error if check_tokens_divide() has one.
Tensor own_tokens(const Tensor& x, const Group& group, double factor);
// All tokens, for work that all ranks do alike.
Tensor all_tokens(const Tensor& x, const Group& group, double factor);

// All tokens, for work of which each rank does a part: gradients are summed.
Tensor tokens_for_parts(const Tensor& x, const Group& group);
// This rank's tokens of the sum of all ranks' y.
Tensor own_tokens_of_sum(const Tensor& y, const Group& group);

// From some tokens with all heads to all tokens with some heads, and back: x is (batch, tokens,
// features), whose features are `matrices` one behind the other, each of all heads.
Tensor tokens_to_heads(const Tensor& x, int64_t matrices, const Group& group);
Tensor heads_to_tokens(const Tensor& x, int64_t matrices, const Group& group);

}  // namespace booster
