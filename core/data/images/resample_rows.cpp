#include "core/data/images/resample_rows.h"

#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

// The dynamic loader selects a clone before the thread sanitizer is ready to run the selecting
// code.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif
#define INLINED inline __attribute__((always_inline))

namespace booster {
namespace {

constexpr int32_t half = 1 << (resample_bits - 1);

INLINED uint8_t as_pixel(int32_t sum) {
  const int32_t value = sum >> resample_bits;
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

void resample_rgb(const HorizontalPass& pass) {
  for (int y = 0; y < pass.rows; ++y) {
    const uint8_t* in = pass.in + y * pass.in_stride;
    uint8_t* out = pass.out + y * pass.out_stride;
    const int32_t* weights = pass.weights;
    for (int i = 0; i < pass.outputs; ++i, weights += pass.count, out += 3) {
      const uint8_t* from = in + pass.first[i] * ptrdiff_t{3};
      int32_t sums[3] = {half, half, half};
      for (int k = 0; k < pass.count; ++k)
        for (int c = 0; c < 3; ++c) sums[c] += from[3 * k + c] * weights[k];
      for (int c = 0; c < 3; ++c) out[c] = as_pixel(sums[c]);
    }
  }
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))

// Loads four pixels of each of two rows.
AVX2 inline __m256i load_pixels(const uint8_t* upper, const uint8_t* lower) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper));
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

// Returns one of the four pixels, with one byte in each 32-bit lane.
template <int pixel>
AVX2 inline __m256i widened(__m256i pixels) {
  constexpr int p = 3 * pixel, zeros = 0x80808000;
  return _mm256_shuffle_epi8(
      pixels, _mm256_setr_epi32(zeros + p, zeros + p + 1, zeros + p + 2, zeros + p + 3, zeros + p,
                                zeros + p + 1, zeros + p + 2, zeros + p + 3));
}

template <int pixel>
AVX2 inline __m256i added(__m256i sum, __m256i pixels, const int32_t* weights) {
  return _mm256_add_epi32(
      sum, _mm256_mullo_epi32(widened<pixel>(pixels), _mm256_set1_epi32(weights[pixel])));
}

// Stores the first `bytes` of each row's pixel.
template <int bytes>
AVX2 inline void store_pixels(__m256i sum, uint8_t* upper, uint8_t* lower) {
  const __m256i value = _mm256_srai_epi32(sum, resample_bits);
  const __m256i words = _mm256_packs_epi32(value, value);
  const __m256i clamped = _mm256_packus_epi16(words, words);  // to 0 .. 255
  const int a = _mm256_cvtsi256_si32(clamped), b = _mm256_extract_epi32(clamped, 4);
  std::memcpy(upper, &a, bytes);
  std::memcpy(lower, &b, bytes);
}

// Returns a weighted sum. `fixed` is the number of weights if known at compile time, else 0.
template <int fixed>
AVX2 inline __m256i weighted_sum(const uint8_t* upper, const uint8_t* lower, const int32_t* weights,
                                 int any_count) {
  const int count = fixed ? fixed : any_count;
  __m256i sum = _mm256_set1_epi32(half);
  int k = 0;
  for (; k + 4 <= count; k += 4, upper += 12, lower += 12) {
    const __m256i pixels = load_pixels(upper, lower);
    sum = added<0>(sum, pixels, weights + k);
    sum = added<1>(sum, pixels, weights + k);
    sum = added<2>(sum, pixels, weights + k);
    sum = added<3>(sum, pixels, weights + k);
  }
  if (k < count) {
    const __m256i pixels = load_pixels(upper, lower);
    sum = added<0>(sum, pixels, weights + k);
    if (k + 1 < count) sum = added<1>(sum, pixels, weights + k);
    if (k + 2 < count) sum = added<2>(sum, pixels, weights + k);
  }
  return sum;
}

// Processes two rows at a time, which share their weights; an odd last row is computed twice.
// Pixels are stored as four bytes; the next pixel overwrites the fourth.
template <int fixed>
AVX2 void resample_rgb_avx2(const HorizontalPass& pass) {
  const int count = fixed ? fixed : pass.count;
  const int last = pass.outputs - 1;
  for (int y = 0; y < pass.rows; y += 2) {
    const int below = y + 1 < pass.rows ? y + 1 : y;
    const uint8_t* in_upper = pass.in + y * pass.in_stride;
    const uint8_t* in_lower = pass.in + below * pass.in_stride;
    uint8_t* upper = pass.out + y * pass.out_stride;
    uint8_t* lower = pass.out + below * pass.out_stride;
    const auto sum = [&](int i) AVX2 {
      const ptrdiff_t at = pass.first[i] * ptrdiff_t{3};
      return weighted_sum<fixed>(in_upper + at, in_lower + at, pass.weights + i * ptrdiff_t{count},
                                 count);
    };
    for (int i = 0; i < last; ++i) store_pixels<4>(sum(i), upper + 3 * i, lower + 3 * i);
    store_pixels<3>(sum(last), upper + 3 * last, lower + 3 * last);
  }
}

void resample_rgb_fast(const HorizontalPass& pass) {
  switch (pass.count) {
    case 2: return resample_rgb_avx2<2>(pass);
    case 3: return resample_rgb_avx2<3>(pass);
    case 4: return resample_rgb_avx2<4>(pass);
    default: return resample_rgb_avx2<0>(pass);
  }
}
#endif

template <int count>
INLINED void blend_few(const uint8_t* in, size_t stride, const int32_t* weights, uint8_t* out,
                       int n) {
  for (int i = 0; i < n; ++i) {
    int32_t sum = half;
    for (int k = 0; k < count; ++k) sum += in[k * stride + i] * weights[k];
    out[i] = as_pixel(sum);
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
    for (int i = 0; i < size; ++i) out[begin + i] = as_pixel(sums[i]);
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
      out[i] = as_pixel(sum);
    }
  }
}

void resample_rows_rgb(const HorizontalPass& pass) {
#ifdef __x86_64__
  static const bool fast = __builtin_cpu_supports("avx2");
  if (fast) return resample_rgb_fast(pass);
#endif
  resample_rgb(pass);
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
