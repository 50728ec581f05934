// The inner loops of resizing, compiled for several instruction sets; the best one is selected when
// the library is loaded. Integer arithmetic: all give the same bits. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace booster {

// Fraction bits of a weight: 8 of the pixel and 2 for overshoot leave 22 of 32.
inline constexpr int resample_bits = 22;

// Each of `rows` rows becomes `outputs` pixels; pixel i is the weighted sum of the `count` input
// pixels from first[i] on, with weights + i * count.
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
// Reads up to 16 bytes from the start of each pixel: into the following pixels or Image::slack.
void resample_rows_rgb(const HorizontalPass& pass);

// out[i] = weighted sum of the bytes i of `count` rows that begin at `in`, `stride` bytes apart.
void blend_rows(const uint8_t* in, size_t stride, const int32_t* weights, int count, uint8_t* out,
                int n);

}  // namespace booster
