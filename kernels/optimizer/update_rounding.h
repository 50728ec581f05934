// Roundings of the f32 result for a bf16 parameter, which keep small updates. Plain functions that
// the CPU's loops and CUDA's kernels both call.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/numbers/random.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Rounds up with the probability that makes the mean exact. It adds a uniform 16-bit number to the
// f32's bits and drops the low 16. Infinities and nan are rounded to nearest.
KERNEL_FN bf16 round_stochastic(float x, uint32_t noise) {
  const uint32_t bits = float_to_bits(x);
  const bool finite = (bits & 0x7F800000) != 0x7F800000;
  const bf16 nearest = to_bf16(x);
  return {finite ? static_cast<uint16_t>((bits + noise) >> 16) : nearest.bits};
}

// Returns the stream of a parameter's step: a function of both, equal on every rank and device.
KERNEL_FN uint64_t noise_key(uint64_t seed, int64_t step) {
  const Philox block = philox(seed, uint64_t(step));
  return uint64_t(block.word[1]) << 32 | block.word[0];
}
// Returns the 16 noise bits of element i.
KERNEL_FN uint32_t noise_bits(uint64_t key, int64_t i) {
  return random_bits({key, 0}, i) >> 16;
}

// Adds by Kahan's sum in bf16, with each result rounded to nearest even: y = update - c; t = w + y;
// c = (t - w) - y; w = t
KERNEL_FN void add_compensated(bf16& w, float update, bf16& c) {
  const float before = to_float(w);
  const float y = to_float(to_bf16(to_float(to_bf16(update)) - to_float(c)));
  const bf16 after = to_bf16(before + y);
  const float moved = to_float(to_bf16(to_float(after) - before));
  c = to_bf16(moved - y);
  w = after;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
