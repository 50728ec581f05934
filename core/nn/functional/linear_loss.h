// Cross entropy of the logits of a linear layer that nothing else reads, by a few rows at a time.
#pragma once

#include "core/autograd/linear_product.h"
#include "core/nn/functional.h"
#include "core/tensor/spread_columns.h"

namespace booster {

// Returns the mean or the sum of the losses, on the tape. The gradients of x, weight and bias are
// computed in this call, so all logits never exist at once. `target` (rows) holds class indices.
// The numbers are cross_entropy's: in f32, f64 and bf16 the same bits for the loss and, if the loss
// arrives with a gradient of 1, for the gradient of x. `ranks`: those that hold the other columns
// of the product, which all call this together; null: it has all.
Tensor linear_loss(const LinearProduct& product, const Tensor& target,
                   const CrossEntropyOptions& options,
                   const std::shared_ptr<const ColumnRanks>& ranks);

// --- shared with cross_entropy
// This rank's logits, dense: of all classes, or of the rank's classes.
struct Logits {
  Tensor here;  // (n, classes or fewer)
  int64_t first_class, classes;
  std::shared_ptr<const ColumnRanks> ranks;  // null: this rank has all
};

struct RowLosses {
  Tensor loss;     // (n)
  Tensor log_sum;  // (n, 2): the largest logit, and the log-sum-exp less that
  Tensor factor;   // d loss / d log_sum; undefined if log_sum covers all classes
};

// Returns the losses of rows [first_row, first_row + n) of `target`, off the tape. Throws for a
// target that is not a class, and names its row.
RowLosses losses_of_rows(const Logits& logits, const Tensor& target, int64_t first_row,
                         const Tensor& weight, const CrossEntropyOptions& options);
// Returns the classes' weights as kernels take them; undefined if there are none.
Tensor dense_weight(const Tensor& weight, DType dtype);
// Returns the sum of the targets' weights (no dimensions), off the tape.
Tensor mean_divisor(const Tensor& target, const Tensor& weight, int64_t ignore_index, DType dtype);
// Returns the mean, the sum or the losses of the rows; `divisor` (no dimensions) is the mean's.
Tensor reduced_rows(const Tensor& loss, const Tensor& divisor, Reduction reduction,
                    const Shape& shape);

}  // namespace booster
