// Losses: how far an output is from its target. Names, options and formulae follow
// torch.nn.functional; criterion.h makes them values for a training loop.
//
// With 16-bit outputs the loss is computed in f32 and is f32 (f64 for f64), under any policy. With
// a reduction of `mean` or `sum` it has no dimensions. Gradients flow to the output (and to a
// floating target of the elementwise losses).
#pragma once

#include "core/autograd/functions.h"

#include <functional>
#include <string>

namespace booster {

// batch_mean is only for kl_div: the sum divided by the size of the first dimension.
enum class Reduction { mean, sum, none, batch_mean };
// Returns the reduction named "mean", "sum" or "none"; throws with the nearest name otherwise.
Reduction reduction_named(const std::string& name);

struct CrossEntropyOptions {
  Tensor weight = {};           // per class, f32 (classes)
  double label_smoothing = 0;   // in [0, 1]: share of the target spread over all classes
  int64_t ignore_index = -100;  // ignores rows with this target
  Reduction reduction = Reduction::mean;
};
// Returns -log softmax(logits)[target], for logits (n, classes), (n, classes, d1, ...) or
// (classes). `target` holds class indices (i64, i32 or u8, in the logits' shape without classes) or
// probabilities (floating, in the logits' shape). `mean` divides losses of class indices by the sum
// of the targets' weights, without ignored rows. It is nan if all rows are ignored. It divides
// losses of probabilities by the number of rows. Throws, with row and value, for an invalid class
// index other than ignore_index.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options = {});

// cross_entropy(linear(x, weight, bias), target, options) for x (rows, features), which computes
// the logits by a few rows at a time while a tape records. weight is (classes, features). Not by
// rows with Reduction::none, or if ranks have parts of the weight and must give all logits.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const Tensor& bias = {}, CrossEntropyOptions options = {});

struct NllOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
// Returns -weight[target] log_probability[target] for log-probabilities (n, classes), like
// cross_entropy.
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
// Returns the same for probabilities in [0, 1], with logarithms clamped at -100. Throws for values
// outside.
Tensor binary_cross_entropy(const Tensor& probability, const Tensor& target,
                            BinaryCrossEntropyOptions options = {});

// Of vectors along a dimension: a b / (|a| |b|), each norm at least eps; |a - b + eps|_p of the
// last.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keep_dim = false);

// --- Losses of pairs and of several arguments. `output` and its partners have one shape, or
// broadcast; a target of signs holds 1 and -1.
// softplus(-target output)
Tensor soft_margin_loss(const Tensor& output, const Tensor& target,
                        Reduction reduction = Reduction::mean);
// x where the target is 1, else max(0, margin - x)
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean);
// max(0, margin - target (a - b))
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           double margin = 0, Reduction reduction = Reduction::mean);
// 1 - cos(a, b) where the target is 1, else max(0, cos(a, b) - margin); of rows (n, features)
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             double margin = 0, Reduction reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;  // use the distance of positive and negative, if it is smaller
  Reduction reduction = Reduction::mean;
  // Default: pairwise_distance with p and eps.
  std::function<Tensor(const Tensor&, const Tensor&)> distance = {};
};
// max(0, distance(anchor, positive) - distance(anchor, negative) + margin)
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions options = {});
// (log max(var, eps) + (output - target)^2 / max(var, eps)) / 2, with log(2 pi) / 2 if `full`
Tensor gaussian_nll_loss(const Tensor& output, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6,
                         Reduction reduction = Reduction::mean);
struct PoissonNllOptions {
  bool log_input = true;  // the output is the rate's logarithm
  bool full = false;      // with Stirling's term for targets above 1
  double eps = 1e-8;      // in log(output + eps), without log_input
  Reduction reduction = Reduction::mean;
};
// exp(output) - target output, or output - target log(output + eps)
Tensor poisson_nll_loss(const Tensor& output, const Tensor& target, PoissonNllOptions options = {});

struct MarginOptions {
  double p = 1, margin = 1;  // p: 1 or 2
  Tensor weight = {};        // per class
  Reduction reduction = Reduction::mean;
};
// Mean over classes of max(0, margin - x[target] + x[i])^p for i != target; x is (n, classes) and
// the target (n) holds class indices.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, MarginOptions options = {});
// The same over all pairs of a class in the target and one that is not. Target rows (n, classes)
// list class indices and end at the first -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                              Reduction reduction = Reduction::mean);
// Mean over classes of binary_cross_entropy_with_logits, for targets 0 and 1 of x's shape.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);

struct CtcOptions {
  int64_t blank = 0;
  bool zero_infinity = false;             // a loss of infinity, and its gradient, become 0
  Reduction reduction = Reduction::mean;  // mean: of losses divided by target lengths
};
// Connectionist temporal classification (Graves et al., 2006): -log of the probability of all
// alignments. log_probability is (steps, n, classes), targets (n, longest) without blanks; lengths
// are (n) i64, on the host or a device.
Tensor ctc_loss(const Tensor& log_probability, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions options = {});

}  // namespace booster
