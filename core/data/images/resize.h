// Antialiased resizing that gives Pillow's pixels, bit for bit.
//
// Makes two passes, each with weights in 22-bit fixed point, each rounded and clamped to 8 bits.
// The horizontal pass comes first, unless the height loses more than twice as many pixels as the
// width (as in Pillow since version 13). A pass that does not change a size is skipped. Any part of
// a result can be computed separately, at the cost of only that part. Thread-safe.
#pragma once

#include "core/data/images/image.h"

#include <vector>

namespace booster {

// Resizes the part `box` of an image; pixels outside the box have no effect. Throws an error of
// kind usage if the box is empty or outside the image, or if a size is below 1.
Image resize(const Image& image, int width, int height,
             Interpolation interpolation = Interpolation::bilinear);
Image resize(const Image& image, int width, int height, Interpolation interpolation,
             const Box& box);

// --- building blocks, for resizing in steps

// The input weights of each output in [begin, end) along one axis: `count` weights from input
// first[i] on. Input j in [int(c - r s + 0.5), int(c + r s + 0.5)) has the weight w((j + 0.5 - c) /
// s), divided by the sum of these weights, where
//   c = (i + 0.5) in / out,  s = max(in / out, 1),
//   r = the filter's radius (1 bilinear, 2 bicubic with a = -0.5).
class Taps {
 public:
  void compute(int in_size, int out_size, Interpolation interpolation, int begin, int end);

  bool identity() const { return shrinks_by_ == 0; }
  int shrinks_by() const { return shrinks_by_; }
  int outputs() const { return outputs_; }
  int count() const { return count_; }
  // Return the range of inputs that the outputs need.
  int input_begin() const { return input_begin_; }
  int input_end() const { return input_end_; }
  const int* first() const { return first_.data(); }
  const int32_t* weights(int output) const { return weights_.data() + size_t(output) * count_; }

 private:
  void compute_weights(double scale, int in_size, Interpolation interpolation, int begin);

  int shrinks_by_ = 0, outputs_ = 0, count_ = 0, input_begin_ = 0, input_end_ = 0;
  std::vector<int> first_;
  std::vector<int32_t> weights_;
  std::vector<double> raw_;
};

// Returns whether the pass along y comes first.
bool vertical_first(const Taps& x, const Taps& y);

// A window of an image: `data` points to the pixel (left, top).
struct PixelView {
  const uint8_t* data = nullptr;
  size_t row_bytes = 0;
  int channels = 0;
  int left = 0, top = 0;
  const uint8_t* at(int x, int y) const {
    return data + (y - top) * row_bytes + (x - left) * ptrdiff_t{channels};
  }
};

// Computes x.outputs() by y.outputs() pixels from `in`. `in` must hold all inputs of x and y, and
// must be in an Image (for its slack). `between` is working memory.
void resample(const PixelView& in, const Taps& x, const Taps& y, Image& between, Image& out);

}  // namespace booster
