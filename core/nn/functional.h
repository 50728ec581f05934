// Differentiable functions of neural networks, from which modules are built. Names, arguments and
// formulae follow torch.nn.functional. Every function takes f32, f64, f16 and bf16, and applies the
// thread's op policy once (core/autograd/op_policy.h). Errors name the function, the wrong argument
// and the legal ones. relu, silu, mish and others of one argument, and linear, are in
// core/autograd/functions.h; losses are in core/nn/losses.h.
//
// 16-bit inputs are computed in f32 and rounded once. Random functions draw from the calling
// thread's generator unless another is given; the same generator state gives the same values for
// any thread count. At the end of this header are the initialisers of parameters (namespace init).
#pragma once

#include "core/autograd/functions.h"
#include "core/nn/losses.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"

#include <optional>
#include <utility>

namespace booster {

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
// alpha elu(x / alpha); x within [low, high]; x where x > limit, else value
Tensor celu(const Tensor& x, double alpha = 1);
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor threshold(const Tensor& x, double limit, double value);
// x where |x| > lambda, else 0; the same, nearer to 0 by lambda; x - tanh(x); softmax(-x)
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor tanhshrink(const Tensor& x);
Tensor softmin(const Tensor& x, int64_t dim);
// log(1 + e^(beta x)) / beta, and x where beta x > limit
Tensor softplus(const Tensor& x, double beta, double limit = 20);
// x where x > 0, else weight x; weight is (1) or (channels), for x (n, channels, ...).
Tensor prelu(const Tensor& x, const Tensor& weight);
// a sigmoid(b), with a and b the halves of a dimension
Tensor glu(const Tensor& x, int64_t dim = -1);
// leaky_relu with a slope drawn for each element in training, else the mean slope.
Tensor rrelu(const Tensor& x, double low = 1.0 / 8, double high = 1.0 / 3, bool training = false);
// softmax((x + Gumbel noise) / tau); `hard`: one-hot, with the gradient of the soft values.
Tensor gumbel_softmax(const Tensor& x, double tau = 1, bool hard = false, int64_t dim = -1);
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
// Normalises each channel of each sample of x (n, channels, ...).
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5);
// x / (k + alpha mean of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al., 2012)
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1);
// x / max(|x|_p, eps) along a dimension
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);
// a W_k b + bias_k for each k; weight is (out, features of a, features of b).
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

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
  Size2d stride = 1, padding = 0, dilation = 1;
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
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Conv1dOptions options = {}, int64_t output_padding = 0);
struct Size3d {
  int64_t depth, height, width;
  Size3d(int64_t all) : depth(all), height(all), width(all) {}
  Size3d(int64_t depth, int64_t height, int64_t width)
      : depth(depth), height(height), width(width) {}
};
struct Conv3dOptions {
  Size3d stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};
// x is (n, channels, d, h, w); weight is (out, channels / groups, kd, kh, kw). Adds a conv2d for
// each plane of the kernel.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Conv3dOptions options = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Conv3dOptions options = {}, Size3d output_padding = 0);

// Rearranges (n, channels factor^2, h, w) to (n, channels, h factor, w factor) (Shi et al., 2016).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);  // the inverse
// Interleaves the channels of `groups` groups (Zhang et al., 2018).
Tensor channel_shuffle(const Tensor& x, int64_t groups);
// Returns the windows of images as columns (n, channels kh kw, windows), and the images
// (n, channels, height, width) in which columns add up.
struct WindowOptions {
  Size2d dilation = 1, padding = 0, stride = 1;
};
Tensor unfold(const Tensor& x, Size2d kernel, WindowOptions options = {});
Tensor fold(const Tensor& columns, Size2d size, Size2d kernel, WindowOptions options = {});
// Resizes to a given height and width: output i takes the value at floor(i in / out).
Tensor interpolate_nearest(const Tensor& x, Size2d size);
struct Scale2d {
  double height, width;
  Scale2d(double both) : height(both), width(both) {}
  Scale2d(double height, double width) : height(height), width(width) {}
};
struct InterpolateOptions {
  std::string mode = "bilinear";    // or bicubic, nearest, nearest-exact, area
  bool align_corners = false;       // keeps corner pixels' places, instead of pixels' areas
  bool antialias = false;           // a smaller image has means over areas as pixels, as in Pillow
  std::optional<Size2d> size = {};  // the new height and width, or
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
Tensor adaptive_max_pool2d(const Tensor& x, Size2d size);
// Also returns each maximum's position in its plane, i64; unpooling writes maxima back into zeros.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Size2d kernel,
                                                  PoolOptions options = {});
Tensor max_unpool2d(const Tensor& x, const Tensor& index, Size2d size);
// (sum of x^p)^(1 / p) over windows
Tensor lp_pool2d(const Tensor& x, double p, Size2d kernel, PoolOptions options = {});
// Of signals (n, channels, length) and volumes (n, channels, d, h, w).
struct Pool1dOptions {
  std::optional<int64_t> stride = {};
  int64_t padding = 0, dilation = 1;
  bool count_padding = true, ceil_mode = false;
};
Tensor max_pool1d(const Tensor& x, int64_t kernel, Pool1dOptions options = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel, Pool1dOptions options = {});
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t size);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t size);
struct Pool3dOptions {
  std::optional<Size3d> stride = {};
  Size3d padding = 0, dilation = 1;
  bool count_padding = true, ceil_mode = false;
};
Tensor max_pool3d(const Tensor& x, Size3d kernel, Pool3dOptions options = {});
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& x, Size3d kernel,
                                                  Pool3dOptions options = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& index, Size3d size);
Tensor lp_pool3d(const Tensor& x, double p, Size3d kernel, Pool3dOptions options = {});
Tensor avg_pool3d(const Tensor& x, Size3d kernel, Pool3dOptions options = {});
Tensor adaptive_avg_pool3d(const Tensor& x, Size3d size);
Tensor adaptive_max_pool3d(const Tensor& x, Size3d size);

struct GridSampleOptions {
  std::string mode = "bilinear";  // or nearest
  std::string padding = "zeros";  // outside of the image; or border
  bool align_corners = false;
};
// Reads images at `grid` (n, h, w, 2): x and y from -1 to 1. affine_grid makes one of matrices
// (n, 2, 3), for images of a height and width.
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options = {});
Tensor affine_grid(const Tensor& theta, Size2d size, bool align_corners = false);

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
// Reduces the rows of bags: the indices of each row (bags, n), or from each of `offsets` (bags) to
// the next for index (n). mode: sum or mean, 0 for an empty bag.
Tensor embedding_bag(const Tensor& index, const Tensor& table, const Tensor& offsets = {},
                     const std::string& mode = "mean");
// Sets elements to 0 with probability p and multiplies the others by 1 / (1 - p). Returns x itself
// when not training.
Tensor dropout(const Tensor& x, double p, bool training = true,
               Generator& generator = default_generator());
// Drops whole channels of (n, channels, ...), as dropout does elements.
Tensor dropout2d(const Tensor& x, double p, bool training = true,
                 Generator& generator = default_generator());
// Keeps mean and variance of selu's outputs (Klambauer et al., 2017); drops elements, or channels.
Tensor alpha_dropout(const Tensor& x, double p, bool training = true);
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training = true);
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
