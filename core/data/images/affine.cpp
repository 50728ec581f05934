#include "core/data/images/affine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

namespace booster {
namespace {

Image filled(const Image& like, uint8_t fill) {
  Image out(like.width(), like.height(), like.channels());
  std::memset(out.data(), fill, out.bytes());
  return out;
}

void copy_pixel(const Image& from, int x, int y, uint8_t* to) {
  const int channels = from.channels();
  std::copy_n(from.row(y) + size_t(x) * channels, channels, to);
}

bool is_inside(const Image& image, int64_t x, int64_t y) {
  return x >= 0 && x < image.width() && y >= 0 && y < image.height();
}

// Returns the source positions along one axis, accumulated in double from the first pixel on.
std::vector<int> sources(double first, double step, int count, int size) {
  std::vector<int> from(static_cast<size_t>(count), -1);
  double at = first + step * 0.5;
  for (int& place : from) {
    if (at >= 0 && at < size) place = static_cast<int>(at);
    at += step;
  }
  return from;
}

Image scaled(const Image& image, const AffineMap& m, uint8_t fill) {
  Image out = filled(image, fill);
  const auto from_x = sources(m[2], m[0], out.width(), image.width());
  const auto from_y = sources(m[5], m[4], out.height(), image.height());
  for (int y = 0; y < out.height(); ++y)
    for (int x = 0; x < out.width(); ++x) {
      const int at_x = from_x[static_cast<size_t>(x)], at_y = from_y[static_cast<size_t>(y)];
      if (at_x >= 0 && at_y >= 0)
        copy_pixel(image, at_x, at_y, out.row(y) + size_t(x) * out.channels());
    }
  return out;
}

// Accumulates positions in units of 2^-16 pixels, as Pillow does.
Image nearest(const Image& image, const AffineMap& m, uint8_t fill) {
  const auto fixed = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  Image out = filled(image, fill);
  int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int64_t row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const int64_t right_x = fixed(m[0]), right_y = fixed(m[3]);
  for (int y = 0; y < out.height(); ++y, row_x += fixed(m[1]), row_y += fixed(m[4])) {
    uint8_t* to = out.row(y);
    int64_t at_x = row_x, at_y = row_y;
    for (int x = 0; x < out.width(); ++x, at_x += right_x, at_y += right_y, to += out.channels())
      if (is_inside(image, at_x >> 16, at_y >> 16))
        copy_pixel(image, static_cast<int>(at_x >> 16), static_cast<int>(at_y >> 16), to);
  }
  return out;
}

// Interpolates at a position measured from the pixels' corners; border pixels extend outwards.
double interpolated(const Image& image, double x, double y, int channel) {
  const double left = std::floor(x), top = std::floor(y);
  const auto value = [&](double column, double line) {
    const int at_x = std::clamp(static_cast<int>(column), 0, image.width() - 1);
    const int at_y = std::clamp(static_cast<int>(line), 0, image.height() - 1);
    return double{1} * image.row(at_y)[size_t(at_x) * image.channels() + channel];
  };
  const auto along = [&](double line) {
    const double a = value(left, line);
    return a + (value(left + 1, line) - a) * (x - left);
  };
  const double upper = along(top);
  const double lower = top + 1 >= 0 && top + 1 < image.height() ? along(top + 1) : upper;
  return upper + (lower - upper) * (y - top);
}

Image bilinear(const Image& image, const AffineMap& m, uint8_t fill) {
  Image out = filled(image, fill);
  for (int y = 0; y < out.height(); ++y)
    for (int x = 0; x < out.width(); ++x) {
      const double at_x = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2];
      const double at_y = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
      if (at_x < 0 || at_x >= image.width() || at_y < 0 || at_y >= image.height()) continue;
      uint8_t* to = out.row(y) + size_t(x) * out.channels();
      for (int c = 0; c < out.channels(); ++c)
        to[c] = static_cast<uint8_t>(interpolated(image, at_x - 0.5, at_y - 0.5, c));
    }
  return out;
}

// Returns Python's round(x, 15), which rounds the exact decimal digits of x; x * 1e15 would be
// inexact.
double to_15_digits(double x) {
  const std::string digits = fmt::format("{:.15f}", x);
  double rounded = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

}  // namespace

Image affine(const Image& image, const AffineMap& map, AffineFilter filter, uint8_t fill) {
  if (filter == AffineFilter::bilinear) return bilinear(image, map, fill);
  return map[1] == 0 && map[3] == 0 ? scaled(image, map, fill) : nearest(image, map, fill);
}

AffineMap rotation(double degrees, int width, int height) {
  // In Pillow's order, because another order would change the last digits.
  const double turn = std::fmod(degrees, 360);
  const double angle = -((turn < 0 ? turn + 360 : turn) * (std::numbers::pi / 180));
  const double cosine = to_15_digits(std::cos(angle)), sine = to_15_digits(std::sin(angle));
  const double x = width / 2.0, y = height / 2.0;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

}  // namespace booster
