// Cross entropy of the logits of a linear layer that nothing else reads, by a few rows at a time.
#pragma once

#include "core/autograd/linear_product.h"
#include "core/nn/functional.h"

namespace booster {

// Returns the mean or the sum of the losses, on the tape. The gradients of x, weight and bias are
// computed in this call, so all logits never exist at once. `target` (rows) holds class indices.
// The numbers are cross_entropy's: in f32, f64 and bf16 the same bits for the loss and, if the loss
// arrives with a gradient of 1, for the gradient of x.
Tensor linear_loss(const LinearProduct& product, const Tensor& target,
                   const CrossEntropyOptions& options);

// --- shared with cross_entropy
// Throws for a target that is not a class.
[[noreturn]] void bad_target(const char* op, const Tensor& target, int64_t row, int64_t classes,
                             int64_t ignore_index);
// Returns the classes' weights as kernels take them; undefined if there are none.
Tensor dense_weight(const Tensor& weight, DType dtype);
// Returns the sum of the targets' weights (no dimensions), off the tape.
Tensor mean_divisor(const Tensor& target, const Tensor& weight, int64_t ignore_index, DType dtype);
// Returns the mean, the sum or the losses of the rows; `divisor` (no dimensions) is the mean's.
Tensor reduced_rows(const Tensor& loss, const Tensor& divisor, Reduction reduction,
                    const Shape& shape);

}  // namespace booster
