// The inner loops of resizing, compiled for several instruction sets; the best is selected when the
// library is loaded. Integer arithmetic gives the same bits in all of them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace booster {

// Fraction bits of a weight: 32 minus 8 for the pixel and 2 for overshoot.
inline constexpr int resample_bits = 22;

// Turns each of `rows` rows into `outputs` pixels. Pixel i is the weighted sum of `count` input
// pixels from first[i] on, with weights from weights + i * count on.
struct HorizontalPass {
  const uint8_t* in;
  size_t in_stride;
  uint8_t* out;
  size_t out_stride;
  int rows, outputs, count;
  const int* first;
  const int32_t* weights;
};

void resample_rows_grey(const HorizontalPass& pass);
// The following function reads up to 16 bytes from the start of each pixel, so also following
// pixels or Image::slack.
void resample_rows_rgb(const HorizontalPass& pass);

// out[i] = weighted sum of byte i of `count` rows that start at `in`, `stride` bytes apart.
void blend_rows(const uint8_t* in, size_t stride, const int32_t* weights, int count, uint8_t* out,
                int n);

}  // namespace booster
