// Philox (kernels/numbers/random.h) of as many blocks at once as a vector has lanes. For the CPU.
#pragma once

#include "kernels/numbers/random.h"
#include "kernels/numbers/vectors.h"
#include "kernels/walks/transpose.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the products of the even lanes of a and b, in 64 bits. (The masked form has no operand
// that the compiler takes for undefined.)
KERNEL_FN Vector<uint64_t> product_of_even(Vector<uint32_t> a, Vector<uint32_t> b) {
#if defined(__AVX512F__)
  return (Vector<uint64_t>)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Vector<uint64_t>)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Vector<uint64_t>)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  constexpr uint64_t half = 0xFFFFFFFF;
  return ((Vector<uint64_t>)a & half) * ((Vector<uint64_t>)b & half);
#endif
}

struct WideProduct {
  Vector<uint32_t> low, high;
  KERNEL_FN WideProduct(Vector<uint32_t> a, uint32_t factor) {
    const Vector<uint32_t> b = Vector<uint32_t>{} + factor;
    const auto odd_lanes = (Vector<uint32_t>)((Vector<uint64_t>)a >> 32);
    const Vector<uint64_t> even = product_of_even(a, b), odd = product_of_even(odd_lanes, b);
    constexpr uint64_t half = 0xFFFFFFFF;
    low = (Vector<uint32_t>)((even & half) | (odd << 32));
    high = (Vector<uint32_t>)((even >> 32) | (odd & ~half));
  }
};

// Writes the words of blocks first, first + 1, ... of a stream to bits: lanes<uint32_t> blocks.
inline void philox_vectors(uint32_t* bits, uint64_t key, uint64_t first) {
  using Words = Vector<uint32_t>;
  constexpr int n = lanes<uint32_t>;
  Words lane;
  for (int i = 0; i < n; ++i) lane[i] = uint32_t(i);
  const Words start = Words{} + uint32_t(first);
  Words x0 = start + lane, x1 = Words{} + uint32_t(first >> 32), x2 = {}, x3 = {};
  x1 -= (Words)(x0 < start);  // the carry; a comparison gives -1
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const WideProduct a(x0, 0xD2511F53u), b(x2, 0xCD9E8D57u);
    x0 = b.high ^ x1 ^ k0;
    x1 = b.low;
    x2 = a.high ^ x3 ^ k1;
    x3 = a.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  using Order = LaneOrders<n>;
  const Words a = Order::template interleave<0>(x0, x2), b = Order::template interleave<0>(x1, x3);
  const Words c = Order::template interleave<n / 2>(x0, x2),
              d = Order::template interleave<n / 2>(x1, x3);
  vector_anywhere(bits) = Order::template interleave<0>(a, b);
  vector_anywhere(bits + n) = Order::template interleave<n / 2>(a, b);
  vector_anywhere(bits + 2 * n) = Order::template interleave<0>(c, d);
  vector_anywhere(bits + 3 * n) = Order::template interleave<n / 2>(c, d);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
