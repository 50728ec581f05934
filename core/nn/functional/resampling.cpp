// Images of other sizes, of the same numbers.
#include "core/nn/functional.h"
#include "core/nn/functional/arguments.h"

#include "core/autograd/op_policy.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// Keys' cubic convolution.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}
double triangle(double x) { return std::max(1 - std::fabs(x), 0.0); }

// What each of `out` places takes of each of `in`: (out, in), rows with a sum of 1.
class Weights {
 public:
  Weights(int64_t in, int64_t out, const InterpolateOptions& options)
      : in_(in), out_(out), is_cubic_(options.mode == "bicubic"), options_(options),
        values_(static_cast<size_t>(in * out)) {
    const auto inputs = static_cast<double>(in), outputs = static_cast<double>(out);
    scale_ = !options.align_corners ? inputs / outputs
             : out > 1              ? (inputs - 1) / (outputs - 1)
                                    : 0;
    for (int64_t i = 0; i < out; ++i) options.antialias ? add_area(i) : add_neighbours(i);
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
    for (int64_t j = first; j < last; ++j)
      at(i, j) = shares[static_cast<size_t>(j - first)] / sum;
  }

  int64_t in_, out_;
  bool is_cubic_;
  const InterpolateOptions& options_;
  double scale_ = 0;
  std::vector<double> values_;
};

// Which of `in` places each of `out` places takes its value from.
Tensor nearest(int64_t in, int64_t out, Device device) {
  std::vector<int64_t> places(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) places[static_cast<size_t>(i)] = i * in / out;
  return from_vector(places, {out}).to(device);
}

void check_images(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  check(x.ndim() == 4, "{}: wrong number of dimensions; got {}, want (n, channels, h, w)", op,
        x.shape());
}

void check_sizes(const char* op, const Tensor& x, Size2d size) {
  check_images(op, x);
  check(size.height >= 1 && size.width >= 1 && x.size(2) >= 1 && x.size(3) >= 1,
        "{}: an image has no pixels; got {} to ({}, {})", op, x.shape(), size.height, size.width);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_images("pixel_shuffle", x);
  check(factor >= 1 && x.size(1) % (factor * factor) == 0,
        "pixel_shuffle: the channels are no multiple of factor^2; got {} channels and factor {}",
        x.size(1), factor);
  const int64_t n = x.size(0), c = x.size(1) / (factor * factor), h = x.size(2), w = x.size(3);
  const Tensor split = reshape(x, {n, c, factor, factor, h, w});
  return reshape(permute(split, {0, 1, 4, 2, 5, 3}), {n, c, h * factor, w * factor});
}

Tensor interpolate_nearest(const Tensor& x, Size2d size) {
  check_sizes("interpolate_nearest", x, size);
  const PolicyScope inside(nullptr);
  const Tensor rows = index_select(x, 2, nearest(x.size(2), size.height, x.device()));
  return index_select(rows, 3, nearest(x.size(3), size.width, x.device()));
}

Tensor interpolate(const Tensor& x, Size2d size, InterpolateOptions options) {
  check_sizes("interpolate", x, size);
  const std::vector<std::string> modes = {"bilinear", "bicubic"};
  check(std::ranges::find(modes, options.mode) != modes.end(),
        "interpolate: unknown mode; got {}{} (nearest: interpolate_nearest)", options.mode,
        legal_names(options.mode, modes));
  const PolicyScope inside(nullptr);
  const Tensor whole = is_16_bit(x.dtype()) ? cast(x, DType::f32) : x;
  const Tensor rows = Weights(x.size(2), size.height, options).like(whole);
  const Tensor columns = Weights(x.size(3), size.width, options).like(whole);
  const Tensor y = matmul(matmul(rows, whole), transpose(columns, 0, 1));
  return is_16_bit(x.dtype()) ? cast(y, x.dtype()) : y;
}

}  // namespace booster
