#include "core/data/images/resize.h"

#include "core/data/images/resample_rows.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace booster {
namespace {

double radius(Interpolation interpolation) {
  return interpolation == Interpolation::bilinear ? 1.0 : 2.0;
}

double triangle(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic convolution with a = -0.5.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

int32_t fixed_point(double weight) {
  constexpr double one = 1 << resample_bits;
  return static_cast<int32_t>(weight < 0 ? weight * one - 0.5 : weight * one + 0.5);
}

struct Range {
  int begin, end;
};

Range inputs_of(int output, double scale, double support, int in_size) {
  const double centre = (output + 0.5) * scale;
  return {std::max(0, static_cast<int>(centre - support + 0.5)),
          std::min(in_size, static_cast<int>(centre + support + 0.5))};
}

}  // namespace

void Taps::compute(int in_size, int out_size, Interpolation interpolation, int begin, int end) {
  outputs_ = end - begin;
  shrinks_by_ = in_size - out_size;
  if (identity()) {
    input_begin_ = begin;
    input_end_ = end;
    return;
  }
  const double scale = static_cast<double>(in_size) / out_size;
  const double support = radius(interpolation) * std::max(scale, 1.0);
  count_ = 0;
  input_begin_ = in_size;
  input_end_ = 0;
  for (int i = begin; i < end; ++i) {
    const Range range = inputs_of(i, scale, support, in_size);
    count_ = std::max(count_, range.end - range.begin);
    input_begin_ = std::min(input_begin_, range.begin);
    input_end_ = std::max(input_end_, range.end);
  }
  compute_weights(scale, in_size, interpolation, begin);
}

// Gives all outputs the same number of weights, so that the passes run without branches. Surplus
// weights are zeros for inputs that are needed in any case.
void Taps::compute_weights(double scale, int in_size, Interpolation interpolation, int begin) {
  const double filter_scale = std::max(scale, 1.0);
  const double support = radius(interpolation) * filter_scale;
  const double inverse = 1.0 / filter_scale;
  const auto filter = interpolation == Interpolation::bilinear ? triangle : cubic;
  first_.resize(outputs_);
  raw_.resize(count_);
  weights_.assign(size_t(outputs_) * count_, 0);
  for (int i = 0; i < outputs_; ++i) {
    const Range range = inputs_of(begin + i, scale, support, in_size);
    const double centre = (begin + i + 0.5) * scale;
    double sum = 0;
    for (int j = range.begin; j < range.end; ++j)
      sum += raw_[j - range.begin] = filter((j - centre + 0.5) * inverse);
    first_[i] = std::min(range.begin, input_end_ - count_);
    int32_t* weights = weights_.data() + size_t(i) * count_ + (range.begin - first_[i]);
    for (int j = 0; j < range.end - range.begin; ++j)
      weights[j] = fixed_point(sum != 0 ? raw_[j] / sum : raw_[j]);
  }
}

namespace {

void copy_rows(const PixelView& in, Image& out) {
  for (int y = 0; y < out.height(); ++y)
    std::memcpy(out.row(y), in.at(in.left, in.top + y), out.row_bytes());
}

// Resizes the first `rows` rows of `in` along x.
void horizontal_pass(const PixelView& in, const Taps& x, int rows, Image& out) {
  out.reshape(x.outputs(), rows, in.channels);
  const HorizontalPass pass = {.in = in.at(0, in.top),
                               .in_stride = in.row_bytes,
                               .out = out.data(),
                               .out_stride = out.row_bytes(),
                               .rows = rows,
                               .outputs = x.outputs(),
                               .count = x.count(),
                               .first = x.first(),
                               .weights = x.weights(0)};
  in.channels == 1 ? resample_rows_grey(pass) : resample_rows_rgb(pass);
}

// Resizes the first `columns` columns of `in` along y.
void vertical_pass(const PixelView& in, const Taps& y, int columns, Image& out) {
  out.reshape(columns, y.outputs(), in.channels);
  for (int row = 0; row < out.height(); ++row)
    blend_rows(in.at(in.left, y.first()[row]), in.row_bytes, y.weights(row), y.count(),
               out.row(row), static_cast<int>(out.row_bytes()));
}

// Returns `in` without the pixels before the first one that x and y need.
PixelView needed(const PixelView& in, const Taps& x, const Taps& y) {
  const int left = x.input_begin(), top = y.input_begin();
  return {in.at(left, top), in.row_bytes, in.channels, left, top};
}

PixelView view_of(const Image& image, int left, int top) {
  return {image.data(), image.row_bytes(), image.channels(), left, top};
}

}  // namespace

bool vertical_first(const Taps& x, const Taps& y) {
  return y.shrinks_by() > std::max(0, 2 * x.shrinks_by());
}

void resample(const PixelView& source, const Taps& x, const Taps& y, Image& between, Image& out) {
  const PixelView in = needed(source, x, y);
  const int rows = y.input_end() - y.input_begin();
  const int columns = x.input_end() - x.input_begin();
  if (x.identity() && y.identity()) {
    out.reshape(columns, rows, in.channels);
    copy_rows(in, out);
  } else if (x.identity()) {
    vertical_pass(in, y, columns, out);
  } else if (y.identity()) {
    horizontal_pass(in, x, rows, out);
  } else if (vertical_first(x, y)) {
    vertical_pass(in, y, columns, between);
    horizontal_pass(view_of(between, in.left, 0), x, y.outputs(), out);
  } else {
    horizontal_pass(in, x, rows, between);
    vertical_pass(view_of(between, 0, in.top), y, x.outputs(), out);
  }
}

Image resize(const Image& image, int width, int height, Interpolation interpolation) {
  return resize(image, width, height, interpolation, {0, 0, image.width(), image.height()});
}

Image resize(const Image& image, int width, int height, Interpolation interpolation,
             const Box& box) {
  check(width > 0 && height > 0, "resize: size out of range; got {} x {}, want at least 1 x 1",
        width, height);
  check(box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
            box.left + int64_t{box.width} <= image.width() &&
            box.top + int64_t{box.height} <= image.height(),
        "resize: box is not within the image; got left {} top {} size {} x {}, want it in {} x {}",
        box.left, box.top, box.width, box.height, image.width(), image.height());
  Taps x, y;
  x.compute(box.width, width, interpolation, 0, width);
  y.compute(box.height, height, interpolation, 0, height);
  Image between, out;
  const uint8_t* corner = image.row(box.top) + box.left * image.channels();
  resample({corner, image.row_bytes(), image.channels(), 0, 0}, x, y, between, out);
  return out;
}

}  // namespace booster
