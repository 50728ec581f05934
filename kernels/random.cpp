// Random numbers and dropout. Each block of four elements is one Philox call.
#include "kernels/random.h"

#include "kernels/catalogue.h"
#include "kernels/convert.h"
#include "kernels/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t run = 512;

// bits[i] = random number of element begin + i; begin is a multiple of 4.
void draw(uint32_t* bits, RandomPosition position, int64_t begin, int64_t n) {
  const uint64_t first = position.offset + uint64_t(begin) / 4;
  const int64_t blocks = (n + 3) / 4;
  uint32_t words[4][run / 4];
  for (int64_t b = 0; b < blocks; ++b) {
    const Philox four = philox(position.key, first + uint64_t(b));
    for (int k = 0; k < 4; ++k) words[k][b] = four.word[k];
  }
  for (int64_t i = 0; i < n; ++i) bits[i] = words[i % 4][i / 4];
}

// Fills out with value(bits run, floats run, n).
template <class F>
void generate(const View& out, RandomPosition position, F value) {
  for_each_range(out.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) float values[run];
    const int64_t n = end - begin;
    draw(bits, position, begin, n);
    value(values, bits, n);
    store_run(out.as<char>() + begin * size_of(out.dtype), out.dtype, 1, values, n);
  });
}

}  // namespace

void uniform(View out, double low, double high, RandomPosition position) {
  const float from = float(low), span = float(high - low);
  generate(out, position, [&](float* y, const uint32_t* bits, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = from + span * unit_float(bits[i]);
  });
}

// Box and Muller: elements 2j and 2j+1 share a radius, one takes the cosine, one the sine.
void normal(View out, double mean, double std, RandomPosition position) {
  const float centre = float(mean), scale = float(std);
  generate(out, position, [&](float* y, const uint32_t* bits, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t even = i & ~int64_t(1);
      const uint32_t angle_bits = even + 1 < n ? bits[even + 1] : bits[even] * 2654435761u;
      const float radius = sqrt_(-2.0f * log_(1.0f - unit_float(bits[even])));
      const float angle = 6.2831853f * unit_float(angle_bits);
      y[i] = centre + scale * radius * (i == even ? cos_(angle) : sin_(angle));
    }
  });
}

void dropout(View y, View x, double p, RandomPosition position) {
  const uint32_t threshold = drop_threshold(p);
  const float scale = p < 1 ? float(1 / (1 - p)) : 0.0f;
  for_each_range(x.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) float in[run], out[run];
    const int64_t n = end - begin;
    draw(bits, position, begin, n);
    const float* values = read_row(x, begin, n, in);
    float* target = row_target(y, begin, out);
    for (int64_t i = 0; i < n; ++i) {
      const float kept = values[i] * scale;
      target[i] = bits[i] >= threshold && p < 1 ? kept : 0.0f;
    }
    write_row(y, begin, n, target);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
