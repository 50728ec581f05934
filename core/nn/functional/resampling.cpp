// Resizing of images.
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

#include "core/autograd/op_policy.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// Keys' cubic convolution kernel.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}
double triangle(double x) { return std::max(1 - std::fabs(x), 0.0); }

// One side of an image.
struct Side {
  int64_t in, out;
  double step;  // input places per output place: in / out, or by scale_factor
};

// Weights of `in` places in each of `out` places: (out, in), rows sum to 1.
class Weights {
 public:
  Weights(const Side& side, const InterpolateOptions& options)
      : in_(side.in),
        out_(side.out),
        is_cubic_(options.mode == "bicubic"),
        options_(options),
        scale_(side.step),
        values_(static_cast<size_t>(side.in * side.out)) {
    const auto between = [](int64_t n) { return static_cast<double>(n - 1); };
    if (options.align_corners) scale_ = out_ > 1 ? between(in_) / between(out_) : 0;
    for (int64_t i = 0; i < out_; ++i) options.antialias ? add_area(i) : add_neighbours(i);
  }
  Tensor like(const Tensor& x) const {
    return untracked::cast(from_vector(values_, {out_, in_}).to(x.device()), x.dtype());
  }

 private:
  double& at(int64_t i, int64_t place) {
    return values_[static_cast<size_t>(i * in_ + std::clamp<int64_t>(place, 0, in_ - 1))];
  }

  void add_neighbours(int64_t i) {
    const auto place = static_cast<double>(i);
    double centre = options_.align_corners ? scale_ * place : scale_ * (place + 0.5) - 0.5;
    if (!is_cubic_) centre = std::max(centre, 0.0);
    const auto first = static_cast<int64_t>(std::floor(centre));
    const double beyond = centre - static_cast<double>(first);
    for (int64_t j = is_cubic_ ? -1 : 0; j <= (is_cubic_ ? 2 : 1); ++j) {
      const double distance = static_cast<double>(j) - beyond;
      at(i, first + j) += is_cubic_ ? cubic(distance, -0.75) : triangle(distance);
    }
  }

  void add_area(int64_t i) {
    const double wide = std::max(scale_, 1.0), support = (is_cubic_ ? 2 : 1) * wide;
    const double centre = scale_ * (static_cast<double>(i) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto last = std::min(static_cast<int64_t>(centre + support + 0.5), in_);
    std::vector<double> shares;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      const double distance = (static_cast<double>(j) - centre + 0.5) / wide;
      shares.push_back(is_cubic_ ? cubic(distance, -0.5) : triangle(distance));
      sum += shares.back();
    }
    for (int64_t j = first; j < last; ++j) at(i, j) = shares[static_cast<size_t>(j - first)] / sum;
  }

  int64_t in_, out_;
  bool is_cubic_;
  const InterpolateOptions& options_;
  double scale_;
  std::vector<double> values_;
};

// Returns the input place whose value each output place takes. Uses PyTorch's arithmetic, since
// float rounding decides whether a quotient is an integer.
Tensor nearest(const Side& side, bool exact, Device device) {
  const auto step = static_cast<float>(side.step);
  std::vector<int64_t> places(static_cast<size_t>(side.out));
  for (int64_t i = 0; i < side.out; ++i) {
    const float at = exact ? static_cast<float>((static_cast<double>(i) + 0.5) * step)
                           : static_cast<float>(i) * step;
    places[static_cast<size_t>(i)] =
        side.in == side.out && !exact ? i
                                      : std::min(static_cast<int64_t>(std::floor(at)), side.in - 1);
  }
  return from_vector(places, {side.out}).to(device);
}

void check_images(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  check(x.ndim() == 4, "{}: wrong number of dimensions; got {}, want (n, channels, h, w)", op,
        x.shape());
}

bool is_nearest(const std::string& mode) { return mode == "nearest" || mode == "nearest-exact"; }

// Returns both sides, from the options' size or scale.
std::pair<Side, Side> sides_of(const char* op, const Tensor& x, const InterpolateOptions& options) {
  check_images(op, x);
  check(options.size.has_value() != options.scale_factor.has_value(),
        "{}: want either size or scale_factor; got {}", op, options.size ? "both" : "none");
  const auto side = [&](int64_t in, int64_t size, double factor) {
    const auto inputs = static_cast<double>(in);
    if (!options.scale_factor) return Side{in, size, inputs / static_cast<double>(size)};
    return Side{in, static_cast<int64_t>(std::floor(inputs * factor)), 1 / factor};
  };
  const Size2d size = options.size.value_or(0);
  const Scale2d factor = options.scale_factor.value_or(0);
  const Side rows = side(x.size(2), size.height, factor.height);
  const Side columns = side(x.size(3), size.width, factor.width);
  check(rows.out >= 1 && columns.out >= 1 && rows.in >= 1 && columns.in >= 1,
        "{}: an image has no pixels; got {} to ({}, {})", op, x.shape(), rows.out, columns.out);
  return {rows, columns};
}

void check_mode(const InterpolateOptions& options) {
  const std::vector<std::string> modes = {"nearest", "nearest-exact", "bilinear", "bicubic",
                                          "area"};
  check(std::ranges::find(modes, options.mode) != modes.end(),
        "interpolate: unknown mode; got {}{}", options.mode, legal_names(options.mode, modes));
  const bool weighs = options.mode == "bilinear" || options.mode == "bicubic";
  check(weighs || !(options.align_corners || options.antialias),
        "interpolate: only bilinear and bicubic have {}; got it with {}",
        options.align_corners ? "align_corners" : "antialias", options.mode);
}

Tensor picked(const Tensor& x, const Side& rows, const Side& columns, bool exact) {
  const Tensor y = index_select(x, 2, nearest(rows, exact, x.device()));
  return index_select(y, 3, nearest(columns, exact, x.device()));
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_images("pixel_shuffle", x);
  check(factor >= 1 && factor < int64_t{1} << 30 && x.size(1) % (factor * factor) == 0,
        "pixel_shuffle: the channels are not a multiple of factor^2; got {} channels and factor {}",
        x.size(1), factor);
  const int64_t n = x.size(0), c = x.size(1) / (factor * factor), h = x.size(2), w = x.size(3);
  const Tensor split = reshape(x, {n, c, factor, factor, h, w});
  return reshape(permute(split, {0, 1, 4, 2, 5, 3}), {n, c, h * factor, w * factor});
}

Tensor interpolate_nearest(const Tensor& input, Size2d size) {
  const auto [rows, columns] = sides_of("interpolate_nearest", input, {.size = size});
  Tensor x = input;
  apply_policy(Op::interpolate, {&x});
  const PolicyScope inside(nullptr);
  return picked(x, rows, columns, false);
}

Tensor interpolate(const Tensor& x, Size2d size, InterpolateOptions options) {
  check(!options.size, "interpolate: wrong number of sizes; got two, want one");
  options.size = size;
  return interpolate(x, options);
}

Tensor interpolate(const Tensor& input, const InterpolateOptions& options) {
  check_mode(options);
  const auto [rows, columns] = sides_of("interpolate", input, options);
  if (options.mode == "area") return adaptive_avg_pool2d(input, {rows.out, columns.out});
  Tensor x = input;
  apply_policy(Op::interpolate, {&x});
  const PolicyScope inside(nullptr);
  if (is_nearest(options.mode)) return picked(x, rows, columns, options.mode == "nearest-exact");
  const Tensor whole = is_16_bit(x.dtype()) ? cast(x, DType::f32) : x;
  const Tensor of_rows = Weights(rows, options).like(whole);
  const Tensor of_columns = Weights(columns, options).like(whole);
  const Tensor y = matmul(matmul(of_rows, whole), transpose(of_columns, 0, 1));
  return is_16_bit(x.dtype()) ? cast(y, x.dtype()) : y;
}

}  // namespace booster
