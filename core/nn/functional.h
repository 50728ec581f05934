// Differentiable functions of neural networks, from which modules are built. Names, arguments and
// formulae follow torch.nn.functional. Every function takes f32, f64, f16 and bf16, and applies the
// thread's op policy once (core/autograd/op_policy.h). Errors name the function, the wrong argument
// and the legal ones. relu, silu, tanh, sigmoid, softplus and linear are in
// core/autograd/functions.h.
//
// 16-bit inputs are computed in f32 and rounded once. Random functions draw from the calling
// thread's generator unless another is given; the same generator state gives the same values for
// any thread count. At the end of this header are the initialisers of parameters (namespace init).
#pragma once

#include "core/autograd/functions.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"

#include <optional>
#include <utility>

namespace booster {

// --- Losses: how far an output is from its target. Names, options and formulae follow PyTorch.
//
// With 16-bit outputs the loss is computed in f32 and is f32 (f64 for f64), under any policy. With
// a reduction of `mean` or `sum` it has no dimensions. Gradients flow to the output (and to a
// floating target of the elementwise losses).

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
// rows with Reduction::none, or if ranks have parts of the weight.
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

// --- activations (activation.cpp)
// Both work along `dim`. The result is f32 if the policy requires it.
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);

enum class GeluForm { erf, tanh };
// x * P(X <= x) of a standard normal X, exact by erf or in the tanh form.
Tensor gelu(const Tensor& x, GeluForm form);
// x where x > 0, else slope x
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// x where x > 0, else alpha (e^x - 1)
Tensor elu(const Tensor& x, double alpha = 1);
// gelu(linear(x, weight, bias)), with one pass fewer over memory in backward.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   GeluForm form = GeluForm::erf);

// --- normalisation (normalization.cpp, channel_normalization.cpp)
// Normalises over the last dimensions, whose sizes are `normalized_shape`. weight and bias have
// that shape or are undefined. Their dtype is x's, or f32 with a 16-bit x. `result` is the dtype to
// write. If the only consumer would cast the result, it gives the same values without a pass for
// the cast (see dtype_for_linear).
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, std::optional<DType> result = {});

struct ResidualNorm {
  Tensor sum;         // x + branch
  Tensor normalized;  // layer_norm(sum)
};
// The residual connection and the following normalisation, in one pass forward and one backward.
ResidualNorm residual_layer_norm(const Tensor& x, const Tensor& branch,
                                 const Shape& normalized_shape, const Tensor& weight = {},
                                 const Tensor& bias = {}, double eps = 1e-5,
                                 std::optional<DType> result = {});

// Returns the dtype in which a linear layer would read a normalisation of x.
DType dtype_for_linear(const Tensor& x);

// Returns x / sqrt(mean of x^2 + eps) over the last dimensions, times the weight (if defined).
// Computes in f32 if x has 16 bits. The default eps is 2^-23, or 2^-52 for f64: the spacing at 1 of
// the computing dtype, as in PyTorch 2.15.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

// Normalises x (n, channels, ...) over each of `groups` groups of channels. weight and bias are
// (channels) or undefined.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct BatchNormOptions {
  bool training = false;  // use this batch's statistics, and update the running ones
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  double eps = 1e-5;
};
// Normalises x (n, channels, ...) over n and space. Running statistics (channels) may be undefined
// in training. It updates them in place, with the unbiased variance; if x is empty they keep their
// values.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  BatchNormOptions options = {});
// Returns relu(batch_norm(x, ...) + residual); residual has x's shape or is undefined. For
// channels-last images on a CPU it takes one pass over memory, if no policy casts for relu or add.
Tensor batch_norm_relu(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight = {}, const Tensor& bias = {},
                       BatchNormOptions options = {}, const Tensor& residual = {});

// --- images (n, channels, height, width) (convolution.cpp, pooling.cpp)
struct Size2d {
  int64_t height, width;
  Size2d(int64_t both) : height(both), width(both) {}
  Size2d(int64_t height, int64_t width) : height(height), width(width) {}
};

struct ConvOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  int64_t groups = 1;
};
// weight is (out, channels / groups, kh, kw); bias is (out) or undefined.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              ConvOptions options = {});

struct ConvTransposeOptions {
  Size2d stride = 1;
  Size2d padding = 0;         // cut off the result's sides
  Size2d output_padding = 0;  // extra lines at the end; less than stride or dilation
  Size2d dilation = 1;
  int64_t groups = 1;
};
// Computes the gradient of conv2d's input, as a function. weight is (channels, out / groups, kh,
// kw); bias is (out) or undefined. Each side becomes
//   (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        ConvTransposeOptions options = {});

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
// x is (n, channels, length); weight is (out, channels / groups, kernel); bias is (out) or
// undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Conv1dOptions options = {});

// Rearranges (n, channels factor^2, h, w) to (n, channels, h factor, w factor) (Shi et al., 2016).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
// Resizes to a given height and width: output i takes the value at floor(i in / out).
Tensor interpolate_nearest(const Tensor& x, Size2d size);

struct Scale2d {
  double height, width;
  Scale2d(double both) : height(both), width(both) {}
  Scale2d(double height, double width) : height(height), width(width) {}
};

struct InterpolateOptions {
  std::string mode = "bilinear";  // or bicubic, nearest, nearest-exact, area
  bool align_corners = false;     // keeps corner pixels' places, instead of pixels' areas
  bool antialias = false;         // a smaller image has means over areas as pixels, as in Pillow
  std::optional<Size2d> size = {};           // the new height and width, or
  std::optional<Scale2d> scale_factor = {};  // the ratios to the old ones; sizes are rounded down
};
// Resizes images with the weights of torch's interpolate along each axis. bicubic uses Keys' kernel
// with a = -0.75, or -0.5 with antialias. align_corners and antialias are for bilinear and bicubic
// only. With a scale_factor the pixel spacing is exact even if the size is rounded.
//
// Rows and columns are matrix products with those weights. A non-finite pixel therefore affects its
// whole row and column, and through them the image. In torch it affects only its neighbours.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
// Resizes to a given height and width.
Tensor interpolate(const Tensor& x, Size2d size, InterpolateOptions options = {});

struct PoolOptions {
  std::optional<Size2d> stride = {};  // default: the kernel's size
  Size2d padding = 0;
  bool count_padding = true;  // averages only: padding counts in the divisor
  Size2d dilation = 1;        // maxima only
  bool ceil_mode = false;     // windows, even the first, may begin inside and end outside
};
Tensor max_pool2d(const Tensor& x, Size2d kernel, PoolOptions options = {});
Tensor avg_pool2d(const Tensor& x, Size2d kernel, PoolOptions options = {});
// Resizes to a given height and width; window i is floor(i in / out) to ceil((i + 1) in / out).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

// --- attention (attention.cpp)
struct AttentionOptions {
  // A floating mask is added to the scores, and may be learned. A bool mask is true for visible
  // keys. Broadcasts to (batch, heads, queries, keys).
  Tensor mask = {};
  double dropout = 0;   // of the probabilities; in training only
  bool causal = false;  // query i sees keys 0 ... i
  int64_t window = 0;   // with causal: query i sees only the last `window` of these; 0: all
  // Packed texts, with causal: a query sees only keys of its own document. Holds the document's id
  // for each token: (batch, tokens) i64.
  Tensor documents = {};
  std::optional<double> scale = {};  // default: 1 / sqrt(head size)
};
// Returns softmax(q k^T scale + mask) v, without storing the scores. q, k and v are (batch, heads,
// tokens, head size) with any strides. The result is stored as (batch, tokens, heads, head size),
// so joining the heads is a view. A query whose keys are all masked gives zeros. k and v may have
// fewer heads than q, if their number divides q's. Consecutive heads of queries then share one head
// of keys.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});
// Returns the place of the first token of each token's document, as `documents` of AttentionOptions
// gives them: i64, (batch, tokens). Waits for a GPU.
Tensor document_starts(const Tensor& documents);
// Computes self-attention of qkv (batch, tokens, 3, heads, head size), the layout that one linear
// layer writes. Returns (batch, tokens, heads * head size). It copies nothing, neither forward nor
// backward.
Tensor attention_packed(const Tensor& qkv, AttentionOptions options = {});

// --- tables and noise (embedding.cpp, dropout.cpp)
// Returns the rows of `table` (entries, features) at `index` (i64 or i32, any shape): (index
// shape..., features). The row padding_index (from the end if negative) gets no gradient. Throws
// for an index outside the table.
Tensor embedding(const Tensor& index, const Tensor& table,
                 std::optional<int64_t> padding_index = {});
// Sets elements to 0 with probability p and multiplies the others by 1 / (1 - p). Returns x itself
// when not training.
Tensor dropout(const Tensor& x, double p, bool training = true,
               Generator& generator = default_generator());
// Drops whole channels of (n, channels, ...), as dropout does elements.
Tensor dropout2d(const Tensor& x, double p, bool training = true,
                 Generator& generator = default_generator());
// Drops whole samples (first dimension) of a residual branch: stochastic depth.
Tensor drop_path(const Tensor& x, double p, bool training = true,
                 Generator& generator = default_generator());

}  // namespace booster

// --- Initialisers fill a parameter in place with random or constant values, off the tape. Formulae
// are PyTorch's (torch.nn.init). They draw from the calling thread's generator unless another is
// given.
namespace booster::init {

void zeros(Tensor x);
void ones(Tensor x);
void constant(Tensor x, double value);
void uniform(Tensor x, double low = 0, double high = 1, Generator& generator = default_generator());
void normal(Tensor x, double mean = 0, double std = 1, Generator& generator = default_generator());
// Draws from a normal distribution truncated to [low, high] (absolute bounds, not standard
// deviations), drawn exactly by the inverse of its cumulative distribution.
void truncated_normal(Tensor x, double mean = 0, double std = 1, double low = -2, double high = 2,
                      Generator& generator = default_generator());

// Inputs and outputs of one unit of a weight (out, in, kernel...).
struct Fans {
  int64_t in, out;
};
Fans fans_of(const Tensor& weight);

enum class Fan { in, out };
// Draw values of standard deviation sqrt(2 / (in + out)) * gain (Glorot and Bengio, 2010).
void xavier_uniform(Tensor x, double gain = 1, Generator& generator = default_generator());
void xavier_normal(Tensor x, double gain = 1, Generator& generator = default_generator());
// Draw values of standard deviation sqrt(2 / ((1 + a^2) fan)), with a the slope of a leaky ReLU (He
// et al., 2015).
void kaiming_uniform(Tensor x, double a = 0, Fan fan = Fan::in,
                     Generator& generator = default_generator());
void kaiming_normal(Tensor x, double a = 0, Fan fan = Fan::in,
                    Generator& generator = default_generator());

// Fills with PyTorch's default of Linear and Conv2d: weight Kaiming uniform with a = sqrt(5), bias
// uniform in +-1 / sqrt(inputs). The bias may be undefined.
void layer_default(Tensor weight, Tensor bias, Generator& generator = default_generator());

}  // namespace booster::init
