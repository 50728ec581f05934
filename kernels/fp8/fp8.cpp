// 8-bit floats: quantizing, decoding, and the result of a product of two quantized matrices. Scales
// are updated on the device, so that the host never reads an amax.
#include "kernels/arguments/fp8.h"

#include "kernels/fp8/fp8_numbers.h"
#include "kernels/launch/workspace.h"
#include "kernels/walks/runs.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t chunk = 16384;  // elements of one block
constexpr uint32_t infinity_bits = 0x7F800000;
constexpr float float_max = 3.40282347e38f;

KERNEL_FN int64_t chunks_of(int64_t n) { return (n + chunk - 1) / chunk; }
KERNEL_FN int64_t size_of_chunk(int64_t n, int64_t i) {
  return (i + 1) * chunk < n ? chunk : n - i * chunk;
}

// Returns the magnitude bits, which as integers have the order of the magnitudes, with inf and nan
// on top.
KERNEL_FN uint32_t magnitude_of(float x) { return float_to_bits(x) & 0x7FFFFFFF; }
KERNEL_FN uint32_t larger(uint32_t a, uint32_t b) { return b > a ? b : a; }
KERNEL_FN bool is_finite(float x) { return x - x == 0.0f; }

// Calls f with a typed null pointer that represents f32, f16 or bf16.
template <class F>
KERNEL_FN void visit_input(DType dtype, F&& f) {
  if (dtype == DType::f16) return f(static_cast<f16*>(nullptr));
  if (dtype == DType::bf16) return f(static_cast<bf16*>(nullptr));
  f(static_cast<float*>(nullptr));
}

// Writes the codes of a run; returns the bits of the largest magnitude.
template <Fp8Format format, bool saturate, class T>
ON_DEVICE uint32_t quantize_run(uint8_t* codes, const T* x, int64_t n, float scale) {
  return map_run_with_largest<uint32_t>(
      codes, x, n,
      [=](const T& element) { return to_fp8<format, saturate>(load<float>(&element) * scale); },
      [](const T& element) { return magnitude_of(load<float>(&element)); });
}

template <class T>
ON_DEVICE uint32_t quantize_run(Fp8Cast cast, uint8_t* codes, const T* x, int64_t n, float scale) {
  if (cast.format == Fp8Format::e4m3 && cast.saturate)
    return quantize_run<Fp8Format::e4m3, true>(codes, x, n, scale);
  if (cast.format == Fp8Format::e4m3)
    return quantize_run<Fp8Format::e4m3, false>(codes, x, n, scale);
  if (cast.saturate) return quantize_run<Fp8Format::e5m2, true>(codes, x, n, scale);
  return quantize_run<Fp8Format::e5m2, false>(codes, x, n, scale);
}

// Raises *amax to the largest of the magnitudes; a nan counts as infinite.
void raise_amax(float* amax, const uint32_t* magnitudes, int64_t count) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    const uint32_t bits = reduce_run<uint32_t>(
        count, 0u, [=](int64_t i) { return magnitudes[i]; }, larger);
    const float value = bits_to_float(bits < infinity_bits ? bits : infinity_bits);
    if (first_lane() && value > *amax) *amax = value;
  });
}

template <class T>
ON_DEVICE void decode_run(Fp8Format format, T* out, const uint8_t* codes, int64_t n) {
  const auto of = [](float value) {
    T number;
    store(&number, value);
    return number;
  };
  if (format == Fp8Format::e4m3)
    map_run(out, codes, n, [=](uint8_t code) { return of(from_fp8<Fp8Format::e4m3>(code)); });
  else
    map_run(out, codes, n, [=](uint8_t code) { return of(from_fp8<Fp8Format::e5m2>(code)); });
}

// Returns the next scale of a tensor used in this pass; an amax of 0 leaves it unchanged.
KERNEL_FN float delayed_scale(float scale, float amax, const Fp8DelayedRule& rule) {
  if (!(amax > 0.0f)) return scale;
  const float next = rule.largest / amax / rule.margin_factor;
  return is_finite(next) ? next : float_max;
}

}  // namespace

void fp8_quantize(View codes, View x, Fp8Cast cast, const float* scale, float* inverse_scale,
                  float* amax) {
  const int64_t n = x.size();
  const Workspace<uint32_t> magnitudes(chunks_of(n) + 1);
  uint32_t* largest_of = magnitudes.data();
  uint8_t* out = codes.as<uint8_t>();
  for_each_block(chunks_of(n), [=] ON_DEVICE(int64_t block) {
    visit_input(x.dtype, [&](auto* type) {
      const auto* in = static_cast<decltype(type)>(x.data) + block * chunk;
      const uint32_t bits = quantize_run(cast, out + block * chunk, in, size_of_chunk(n, block),
                                         scale ? *scale : 1.0f);
      if (first_lane()) largest_of[block] = bits;
    });
  });
  if (amax) raise_amax(amax, largest_of, chunks_of(n));
  if (!inverse_scale) return;
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    if (first_lane()) *inverse_scale = scale ? 1.0f / *scale : 1.0f;
  });
}

void fp8_amax(View x, float* amax) {
  const int64_t n = x.size();
  const Workspace<uint32_t> magnitudes(chunks_of(n) + 1);
  uint32_t* largest_of = magnitudes.data();
  for_each_block(chunks_of(n), [=] ON_DEVICE(int64_t block) {
    visit_input(x.dtype, [&]<class T>(T*) {
      auto* p = static_cast<T*>(x.data) + block * chunk;
      const uint32_t bits = largest_of_run<uint32_t, false>(
          p, size_of_chunk(n, block),
          [](const T& element) { return magnitude_of(load<float>(&element)); });
      if (first_lane()) largest_of[block] = bits;
    });
  });
  raise_amax(amax, largest_of, chunks_of(n));
}

void fp8_decode(View out, View codes, Fp8Format format) {
  const int64_t n = out.size();
  const uint8_t* in = codes.as<uint8_t>();
  for_each_block(chunks_of(n), [=] ON_DEVICE(int64_t block) {
    visit_input(out.dtype, [&](auto* type) {
      decode_run(format, static_cast<decltype(type)>(out.data) + block * chunk, in + block * chunk,
                 size_of_chunk(n, block));
    });
  });
}

void fp8_result(View y, View sums, View bias, const float* inverse_a, const float* inverse_b) {
  const int64_t columns = y.columns();
  const float* all = sums.as<float>();
  for_each_block(y.rows(), [=] ON_DEVICE(int64_t row) {
    const float* in = all + row * columns;
    // In double, so that the factor cannot overflow and turn 0 into nan.
    const double factor = double{*inverse_a} * double{*inverse_b};
    visit_input(y.dtype, [&](auto* type) {
      auto* out = static_cast<decltype(type)>(y.data) + row * columns;
      if (!bias.data)
        return for_each_lane(
            columns, [=](int64_t i) { store(out + i, static_cast<float>(in[i] * factor)); });
      visit_input(bias.dtype, [&](auto* of_bias) {
        const auto* offset = static_cast<decltype(of_bias)>(bias.data);
        for_each_lane(columns, [=](int64_t i) {
          store(out + i, static_cast<float>(in[i] * factor + double{load<float>(offset + i)}));
        });
      });
    });
  });
}

void fp8_delayed_scale(Fp8Scales scales, Fp8DelayedRule rule) {
  for_each_block(scales.tensors, [=] ON_DEVICE(int64_t tensor) {
    float* history = scales.history + tensor * scales.length;
    // Unsigned, and reduced to the ring: a checkpoint may hold any value.
    const int64_t at = static_cast<uint32_t>(scales.cursor[tensor]) % scales.length;
    const float newest = scales.amax[tensor];
    const float window = reduce_run<float>(
        scales.length, 0.0f, [=](int64_t i) { return i == at ? newest : history[i]; },
        [](float a, float b) { return b > a ? b : a; });
    if (!first_lane()) return;
    scales.amax[tensor] = -1.0f;
    if (newest > float_max) store_flag(scales.non_finite, 1.0f);
    if (!(newest >= 0.0f) || newest > float_max) return;
    history[at] = newest;
    scales.cursor[tensor] = static_cast<int32_t>((at + 1) % scales.length);
    scales.scale[tensor] =
        delayed_scale(scales.scale[tensor], rule.most_recent ? newest : window, rule);
  });
}

void fp8_current_scale(float* scale, const float* amax, Fp8CurrentRule rule) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    if (!first_lane()) return;
    const float raised = *amax < rule.eps ? rule.eps : *amax;
    float next = rule.largest / raised;
    if (next > float_max) next = rule.limit;
    if (rule.power_of_two) next = bits_to_float(float_to_bits(next) & 0xFF800000);
    *scale = raised > 0.0f && is_finite(raised) ? next : 1.0f;
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
