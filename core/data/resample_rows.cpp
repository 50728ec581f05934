#include "core/data/resample_rows.h"

#include <cstring>

#if defined(__x86_64__) && !defined(__clang__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif
#define INLINED inline __attribute__((always_inline))

namespace booster {
namespace {

constexpr int32_t half = 1 << (resample_bits - 1);

INLINED uint8_t rounded(int32_t sum) {
  const int32_t value = sum >> resample_bits;
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Ints4 = int32_t __attribute__((vector_size(16)));

INLINED Bytes16 load_pixels(const uint8_t* from) {
  Bytes16 bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

// The four bytes from 3 * pixel on, one per lane. One shuffle instruction.
template <int pixel>
INLINED Ints4 widened(Bytes16 bytes) {
  constexpr uint8_t a = 3 * pixel, b = a + 1, c = a + 2, d = a + 3, zero = 16;
  constexpr Bytes16 order = {a, zero, zero, zero, b, zero, zero, zero,
                             c, zero, zero, zero, d, zero, zero, zero};
  return reinterpret_cast<Ints4>(__builtin_shuffle(bytes, Bytes16{}, order));
}

INLINED void store_pixel(uint8_t* to, Ints4 sum) {
  Ints4 value = sum >> resample_bits;
  value = value < 0 ? Ints4{} : value;
  value = value > 255 ? Ints4{255, 255, 255, 255} : value;
  const Bytes16 bytes = __builtin_shuffle(
      reinterpret_cast<Bytes16>(value), Bytes16{0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12});
  std::memcpy(to, &bytes, 4);
}

// `fixed` is the number of weights if known when compiling, else 0.
template <int fixed>
INLINED void resample_rgb(const HorizontalPass& pass) {
  const int count = fixed ? fixed : pass.count;
  for (int y = 0; y < pass.rows; ++y) {
    const uint8_t* in = pass.in + y * pass.in_stride;
    uint8_t* out = pass.out + y * pass.out_stride;
    const int32_t* weights = pass.weights;
    for (int i = 0; i < pass.outputs; ++i, weights += count) {
      const uint8_t* from = in + pass.first[i] * ptrdiff_t{3};
      Ints4 sum = {half, half, half, half};
      int k = 0;
      for (; k + 4 <= count; k += 4) {
        const Bytes16 pixels = load_pixels(from + 3 * k);
        sum += widened<0>(pixels) * weights[k] + widened<1>(pixels) * weights[k + 1] +
               widened<2>(pixels) * weights[k + 2] + widened<3>(pixels) * weights[k + 3];
      }
      const Bytes16 pixels = load_pixels(from + 3 * k);
      if (k < count) sum += widened<0>(pixels) * weights[k];
      if (k + 1 < count) sum += widened<1>(pixels) * weights[k + 1];
      if (k + 2 < count) sum += widened<2>(pixels) * weights[k + 2];
      store_pixel(out + 3 * i, sum);
    }
  }
}

template <int count>
INLINED void blend_few(const uint8_t* in, size_t stride, const int32_t* weights, uint8_t* out,
                       int n) {
  for (int i = 0; i < n; ++i) {
    int32_t sum = half;
    for (int k = 0; k < count; ++k) sum += in[k * stride + i] * weights[k];
    out[i] = rounded(sum);
  }
}

INLINED void blend_many(const uint8_t* in, size_t stride, const int32_t* weights, int count,
                        uint8_t* out, int n) {
  constexpr int run = 256;
  int32_t sums[run];
  for (int begin = 0; begin < n; begin += run) {
    const int size = n - begin < run ? n - begin : run;
    for (int i = 0; i < size; ++i) sums[i] = half;
    for (int k = 0; k < count; ++k)
      for (int i = 0; i < size; ++i) sums[i] += in[k * stride + begin + i] * weights[k];
    for (int i = 0; i < size; ++i) out[begin + i] = rounded(sums[i]);
  }
}

}  // namespace

FOR_EACH_CPU void resample_rows_grey(const HorizontalPass& pass) {
  for (int y = 0; y < pass.rows; ++y) {
    const uint8_t* in = pass.in + y * pass.in_stride;
    uint8_t* out = pass.out + y * pass.out_stride;
    const int32_t* weights = pass.weights;
    for (int i = 0; i < pass.outputs; ++i, weights += pass.count) {
      int32_t sum = half;
      for (int k = 0; k < pass.count; ++k) sum += in[pass.first[i] + k] * weights[k];
      out[i] = rounded(sum);
    }
  }
}

FOR_EACH_CPU void resample_rows_rgb(const HorizontalPass& pass) {
  switch (pass.count) {
    case 2: return resample_rgb<2>(pass);
    case 3: return resample_rgb<3>(pass);
    case 4: return resample_rgb<4>(pass);
    default: return resample_rgb<0>(pass);
  }
}

FOR_EACH_CPU void blend_rows(const uint8_t* in, size_t stride, const int32_t* weights, int count,
                             uint8_t* out, int n) {
  switch (count) {
    case 2: return blend_few<2>(in, stride, weights, out, n);
    case 3: return blend_few<3>(in, stride, weights, out, n);
    case 4: return blend_few<4>(in, stride, weights, out, n);
    default: return blend_many(in, stride, weights, count, out, n);
  }
}

}  // namespace booster
