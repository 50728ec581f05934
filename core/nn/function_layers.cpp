// Layers of one function without parameters.
#include "core/nn/layers.h"
#include "core/nn/module_traits.h"

namespace booster {
namespace {

std::string sides_text(Size2d size) { return fmt::format("({}, {})", size.height, size.width); }
std::string sides_text(Size3d size) {
  return fmt::format("({}, {}, {})", size.depth, size.height, size.width);
}
std::string sides_text(int64_t size) { return std::to_string(size); }

// Returns the options of a pool of any number of dimensions as text.
template <class Size, class Options>
std::string pool_text(const Size& kernel, const Options& o) {
  return fmt::format("kernel={}, stride={}, padding={}", sides_text(kernel),
                     sides_text(o.stride.value_or(kernel)), sides_text(o.padding));
}

std::string window_text(Size2d kernel, const WindowOptions& o) {
  return fmt::format("kernel={}, stride={}, padding={}, dilation={}", sides_text(kernel),
                     sides_text(o.stride), sides_text(o.padding), sides_text(o.dilation));
}

std::string upsample_text(const UpsampleOptions& options) {
  const auto& [size, factor, mode, align_corners] = options;
  const Scale2d scale = factor.value_or(0);
  return fmt::format("{}, mode={}{}",
                     size ? fmt::format("size={}", sides_text(*size))
                          : fmt::format("scale_factor=({}, {})", scale.height, scale.width),
                     mode, align_corners ? ", align_corners=true" : "");
}

void check_share(const char* kind, double p) {
  check(p >= 0 && p <= 1, "{}: p is not a probability; got {}, want 0 to 1", kind, p);
}

}  // namespace

FunctionLayer::FunctionLayer(const char* kind, Function function, std::string options,
                             bool elementwise)
    : Module(kind),
      function_(std::move(function)),
      text_(std::move(options)),
      elementwise_(elementwise) {}
ModuleTraits FunctionLayer::traits() const { return {.elementwise = elementwise_}; }

// The function of x alone, in a layer of the same arguments.
#define CALL(...) [=](const Tensor& x, bool) { return __VA_ARGS__; }

ReLU::ReLU() : FunctionLayer("ReLU", CALL(relu(x)), "", true) {}
SiLU::SiLU() : FunctionLayer("SiLU", CALL(silu(x)), "", true) {}
Tanh::Tanh() : FunctionLayer("Tanh", CALL(tanh(x)), "", true) {}
Sigmoid::Sigmoid() : FunctionLayer("Sigmoid", CALL(sigmoid(x)), "", true) {}
Identity::Identity() : FunctionLayer("Identity", CALL(x), "", true) {}
Flatten::Flatten(int64_t start_dim, int64_t end_dim)
    : FunctionLayer("Flatten", CALL(flatten(x, start_dim, end_dim)),
                    fmt::format("{}, {}", start_dim, end_dim)) {}
MaxPool2d::MaxPool2d(Size2d kernel, PoolOptions options)
    : FunctionLayer("MaxPool2d", CALL(max_pool2d(x, kernel, options)), pool_text(kernel, options)) {
}
AvgPool2d::AvgPool2d(Size2d kernel, PoolOptions options)
    : FunctionLayer("AvgPool2d", CALL(avg_pool2d(x, kernel, options)), pool_text(kernel, options)) {
}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d size)
    : FunctionLayer("AdaptiveAvgPool2d", CALL(adaptive_avg_pool2d(x, size)), sides_text(size)) {}

Dropout2d::Dropout2d(double p)
    : FunctionLayer(
          "Dropout2d", [p](const Tensor& x, bool training) { return dropout2d(x, p, training); },
          fmt::format("p={}", p)) {
  check_share("Dropout2d", p);
}
DropPath::DropPath(double p)
    : FunctionLayer(
          "DropPath", [p](const Tensor& x, bool training) { return drop_path(x, p, training); },
          fmt::format("p={}", p)) {
  check_share("DropPath", p);
}
LeakyReLU::LeakyReLU(double slope)
    : FunctionLayer("LeakyReLU", CALL(leaky_relu(x, slope)), fmt::format("slope={}", slope)) {}
ELU::ELU(double alpha)
    : FunctionLayer("ELU", CALL(elu(x, alpha)), fmt::format("alpha={}", alpha)) {}
Softmax::Softmax(int64_t dim)
    : FunctionLayer("Softmax", CALL(softmax(x, dim)), fmt::format("dim={}", dim)) {}
PixelShuffle::PixelShuffle(int64_t factor)
    : FunctionLayer("PixelShuffle", CALL(pixel_shuffle(x, factor)), std::to_string(factor)) {}
Upsample::Upsample(const UpsampleOptions& options)
    : FunctionLayer("Upsample",
                    CALL(interpolate(x, InterpolateOptions{.mode = options.mode,
                                                           .align_corners = options.align_corners,
                                                           .size = options.size,
                                                           .scale_factor = options.scale_factor})),
                    upsample_text(options)) {
  check(options.size.has_value() != options.scale_factor.has_value(),
        "Upsample: want either size or scale_factor; got {}", options.size ? "both" : "none");
}

CELU::CELU(double alpha)
    : FunctionLayer("CELU", CALL(celu(x, alpha)), fmt::format("alpha={}", alpha), true) {}
GLU::GLU(int64_t dim) : FunctionLayer("GLU", CALL(glu(x, dim)), fmt::format("dim={}", dim)) {}
Hardshrink::Hardshrink(double lambda)
    : FunctionLayer("Hardshrink", CALL(hardshrink(x, lambda)), fmt::format("{}", lambda), true) {}
Hardsigmoid::Hardsigmoid() : FunctionLayer("Hardsigmoid", CALL(hardsigmoid(x)), "", true) {}
Hardswish::Hardswish() : FunctionLayer("Hardswish", CALL(hardswish(x)), "", true) {}
Hardtanh::Hardtanh(double low, double high)
    : FunctionLayer("Hardtanh", CALL(hardtanh(x, low, high)), fmt::format("{}, {}", low, high),
                    true) {}
LogSigmoid::LogSigmoid() : FunctionLayer("LogSigmoid", CALL(logsigmoid(x)), "", true) {}
LogSoftmax::LogSoftmax(int64_t dim)
    : FunctionLayer("LogSoftmax", CALL(log_softmax(x, dim)), fmt::format("dim={}", dim)) {}
Mish::Mish() : FunctionLayer("Mish", CALL(mish(x)), "", true) {}
ReLU6::ReLU6() : FunctionLayer("ReLU6", CALL(relu6(x)), "", true) {}
RReLU::RReLU(double low, double high)
    : FunctionLayer(
          "RReLU", [=](const Tensor& x, bool training) { return rrelu(x, low, high, training); },
          fmt::format("{}, {}", low, high)) {}
SELU::SELU() : FunctionLayer("SELU", CALL(selu(x)), "", true) {}
Softmin::Softmin(int64_t dim)
    : FunctionLayer("Softmin", CALL(softmin(x, dim)), fmt::format("dim={}", dim)) {}
Softplus::Softplus(double beta, double limit)
    : FunctionLayer("Softplus", CALL(softplus(x, beta, limit)), fmt::format("{}, {}", beta, limit),
                    true) {}
Softshrink::Softshrink(double lambda)
    : FunctionLayer("Softshrink", CALL(softshrink(x, lambda)), fmt::format("{}", lambda), true) {}
Softsign::Softsign() : FunctionLayer("Softsign", CALL(softsign(x)), "", true) {}
Tanhshrink::Tanhshrink() : FunctionLayer("Tanhshrink", CALL(tanhshrink(x)), "", true) {}
Threshold::Threshold(double limit, double value)
    : FunctionLayer("Threshold", CALL(threshold(x, limit, value)),
                    fmt::format("{}, {}", limit, value), true) {}
AlphaDropout::AlphaDropout(double p)
    : FunctionLayer(
          "AlphaDropout",
          [p](const Tensor& x, bool training) { return alpha_dropout(x, p, training); },
          fmt::format("p={}", p)) {
  check_share("AlphaDropout", p);
}

FeatureAlphaDropout::FeatureAlphaDropout(double p)
    : FunctionLayer(
          "FeatureAlphaDropout",
          [p](const Tensor& x, bool training) { return feature_alpha_dropout(x, p, training); },
          fmt::format("p={}", p)) {
  check_share("FeatureAlphaDropout", p);
}

ChannelShuffle::ChannelShuffle(int64_t groups)
    : FunctionLayer("ChannelShuffle", CALL(channel_shuffle(x, groups)), std::to_string(groups)) {}
PixelUnshuffle::PixelUnshuffle(int64_t factor)
    : FunctionLayer("PixelUnshuffle", CALL(pixel_unshuffle(x, factor)), std::to_string(factor)) {}
Unflatten::Unflatten(int64_t dim, const Shape& sizes)
    : FunctionLayer("Unflatten", CALL(unflatten(x, dim, sizes)),
                    fmt::format("{}, {}", dim, sizes)) {}
Pad::Pad(const std::vector<int64_t>& sizes, double value)
    : FunctionLayer("Pad", CALL(pad(x, sizes, value)), fmt::format("{}", Shape(sizes))) {}
Pad::Pad(const std::vector<int64_t>& sizes, const std::string& mode)
    : FunctionLayer("Pad", CALL(pad(x, sizes, mode)), fmt::format("{}, {}", Shape(sizes), mode)) {}
Unfold::Unfold(Size2d kernel, WindowOptions options)
    : FunctionLayer("Unfold", CALL(unfold(x, kernel, options)), window_text(kernel, options)) {}
Fold::Fold(Size2d size, Size2d kernel, WindowOptions options)
    : FunctionLayer("Fold", CALL(fold(x, size, kernel, options)),
                    sides_text(size) + ", " + window_text(kernel, options)) {}

#define POOL(name, function, Size, Options) \
  name::name(Size kernel, Options options)  \
      : FunctionLayer(#name, CALL(function(x, kernel, options)), pool_text(kernel, options)) {}
#define ADAPTIVE(name, function, Size) \
  name::name(Size size) : FunctionLayer(#name, CALL(function(x, size)), sides_text(size)) {}
POOL(MaxPool1d, max_pool1d, int64_t, Pool1dOptions)
POOL(AvgPool1d, avg_pool1d, int64_t, Pool1dOptions)
POOL(MaxPool3d, max_pool3d, Size3d, Pool3dOptions)
POOL(AvgPool3d, avg_pool3d, Size3d, Pool3dOptions)
ADAPTIVE(AdaptiveAvgPool1d, adaptive_avg_pool1d, int64_t)
ADAPTIVE(AdaptiveAvgPool3d, adaptive_avg_pool3d, Size3d)
ADAPTIVE(AdaptiveMaxPool1d, adaptive_max_pool1d, int64_t)
ADAPTIVE(AdaptiveMaxPool2d, adaptive_max_pool2d, Size2d)
ADAPTIVE(AdaptiveMaxPool3d, adaptive_max_pool3d, Size3d)
LPPool2d::LPPool2d(double p, Size2d kernel, PoolOptions options)
    : FunctionLayer("LPPool2d", CALL(lp_pool2d(x, p, kernel, options)),
                    fmt::format("p={}, {}", p, pool_text(kernel, options))) {}
LPPool3d::LPPool3d(double p, Size3d kernel, Pool3dOptions options)
    : FunctionLayer("LPPool3d", CALL(lp_pool3d(x, p, kernel, options)),
                    fmt::format("p={}, {}", p, pool_text(kernel, options))) {}
LocalResponseNorm::LocalResponseNorm(int64_t size, double alpha, double beta, double k)
    : FunctionLayer("LocalResponseNorm", CALL(local_response_norm(x, size, alpha, beta, k)),
                    fmt::format("{}, alpha={}, beta={}, k={}", size, alpha, beta, k)) {}

#undef CALL
#undef POOL
#undef ADAPTIVE

}  // namespace booster
