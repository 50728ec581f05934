// Losses: how far an output is from its target. Names, options and formulae follow PyTorch.
//
// With 16-bit outputs the loss is computed in f32 and is f32 (f64 for f64), whatever the policy.
// With a reduction of `mean` or `sum` it has no dimensions. Gradients flow to the output (and to a
// floating target of the elementwise losses).
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// batch_mean is only for kl_div: the sum divided by the size of the first dimension.
enum class Reduction { mean, sum, none, batch_mean };
// Returns the reduction named "mean", "sum" or "none"; throws with the nearest name otherwise.
Reduction reduction_named(const std::string& name);

struct CrossEntropyOptions {
  Tensor weight = {};           // per class, f32 (classes)
  double label_smoothing = 0;   // in [0, 1]: share of the target spread over all classes
  int64_t ignore_index = -100;  // rows with this target are ignored
  Reduction reduction = Reduction::mean;
};
// -log softmax(logits)[target], for logits (n, classes), (n, classes, d1, ...) or (classes).
// `target` holds class indices (i64, i32 or u8, in the logits' shape without classes) or
// probabilities (floating, in the logits' shape). `mean` divides losses of class indices by the sum
// of the targets' weights, without ignored rows: nan if no row is left. It divides losses of
// probabilities by the number of rows. Throws, with row and value, for an invalid class index other
// than ignore_index.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options = {});

struct NllOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
// As cross_entropy, from log-probabilities (n, classes): -weight[target] log_probability[target].
Tensor nll_loss(const Tensor& log_probability, const Tensor& target, NllOptions options = {});

// The losses below are elementwise; target has output's shape.
// (output - target)^2
Tensor mse_loss(const Tensor& output, const Tensor& target, Reduction reduction = Reduction::mean);
// |output - target|
Tensor l1_loss(const Tensor& output, const Tensor& target, Reduction reduction = Reduction::mean);
// d^2 / (2 beta) where d = |output - target| < beta, else d - beta / 2
Tensor smooth_l1_loss(const Tensor& output, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::mean);

// d^2 / 2 where d = |output - target| < delta, else delta (d - delta / 2)
Tensor huber_loss(const Tensor& output, const Tensor& target, double delta = 1,
                  Reduction reduction = Reduction::mean);

struct KlDivOptions {
  Reduction reduction = Reduction::mean;  // torch recommends batch_mean, the divergence itself
  bool log_target = false;                // the target holds logarithms
};
// target (log target - output), with output log-probabilities; 0 where the target is 0.
Tensor kl_div(const Tensor& output, const Tensor& target, KlDivOptions options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};      // per element; broadcasts
  Tensor pos_weight = {};  // of positive targets; broadcasts; with logits only
  Reduction reduction = Reduction::mean;
};
// -(pos_weight target log sigmoid(logits) + (1 - target) log(1 - sigmoid(logits)))
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        BinaryCrossEntropyOptions options = {});
// As above, from probabilities in [0, 1], with logarithms clamped at -100. Throws for values
// outside.
Tensor binary_cross_entropy(const Tensor& probability, const Tensor& target,
                            BinaryCrossEntropyOptions options = {});

}  // namespace booster
