// What an op policy means for the library's own ops and optimizers: dtypes of results and
// gradients, and the 16-bit copies of leaves. Thread rules are as for op_policy.h.
#pragma once

#include "core/autograd/op_policy.h"

namespace booster {

// Returns the dtype in which `op` would run on an f32 tensor of this device now. A fused op can
// thus write its result in the dtype of its only consumer.
DType dtype_under_policy(Op op, Device device);
// Returns whether the policy requires an f32 result of this op from 16-bit arguments.
bool wants_f32_result(Op op, const Tensor& argument);

// Returns the dtype for the gradient of a layer's weight or bias that a policy may have cast. All
// layers use this rule.
// - A bf16 op: f32 sums go to the f32 original unrounded, which is faster and more precise. A
//   policy
// may require rounding (rounds_gradients).
// - An f16 op: the sums are rounded first, because a loss scaler must see their overflow.
// - An absent original: f32.
inline DType gradient_dtype(const Tensor& original, const Tensor& argument) {
  if (!original.defined()) return DType::f32;
  const bool widens = original.dtype() == DType::f32 && argument.dtype() == DType::bf16;
  const OpPolicy* policy = current_policy();
  return widens && !(policy && policy->rounds_gradients) ? DType::f32 : argument.dtype();
}

// Returns the 16-bit copy kept for a leaf; undefined if there is none. An optimizer rewrites it in
// place (or, in a skipped step, leaves it unchanged) and then calls mark_cast_copy_current.
Tensor cast_copy(const Tensor& leaf, DType dtype);
void mark_cast_copy_current(const Tensor& leaf, DType dtype);
// Frees the copies kept for a leaf, unless a tape holds them.
void forget_cast_copies(const Tensor& leaf);

}  // namespace booster
