// Vectors of the processor's register width, for loops in which the compiler must keep values in
// registers. Also elements of a dtype as vectors of their compute type. For the CPU.
#pragma once

#include "kernels/numbers/convert.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace booster::kernels::BOOSTER_VARIANT {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
constexpr bool many_registers = true;  // 32 registers; otherwise 16
#else
#if defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif
constexpr bool many_registers = false;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(vector_bytes), may_alias));
  typedef T Anywhere __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
constexpr int lanes = vector_bytes / int(sizeof(T));

// Returns the vector at an aligned address.
template <class T>
KERNEL_FN Vector<T>& vector_at(T* p) {
  return *reinterpret_cast<Vector<T>*>(p);
}
template <class T>
KERNEL_FN const Vector<T>& vector_at(const T* p) {
  return *reinterpret_cast<const Vector<T>*>(p);
}

// Loads 16-bit elements, as many as a vector has f32, from any address. (The compiler's own
// conversion works in halves. The masked forms have no operand that the compiler takes for
// undefined.)
typedef uint16_t Halves __attribute__((vector_size(vector_bytes / 2), aligned(2), may_alias));
KERNEL_FN Vector<uint32_t> load_halves(const void* p) {
#ifdef __AVX512F__
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return (Vector<uint32_t>)_mm512_maskz_cvtepu16_epi32(0xFFFF, bits);
#else
  return __builtin_convertvector(*static_cast<const Halves*>(p), Vector<uint32_t>);
#endif
}

// Loads from and stores to unaligned addresses, as vectors of the compute type. Rounds like
// `store`.
template <class T>
KERNEL_FN typename VectorOf<T>::Anywhere& vector_anywhere(T* p) {
  return *reinterpret_cast<typename VectorOf<T>::Anywhere*>(p);
}
KERNEL_FN Vector<float> load_vector(const float* p) {
  return vector_anywhere(const_cast<float*>(p));
}
KERNEL_FN Vector<double> load_vector(const double* p) {
  return vector_anywhere(const_cast<double*>(p));
}
KERNEL_FN void store_vector(float* p, Vector<float> x) { vector_anywhere(p) = x; }
KERNEL_FN void store_vector(double* p, Vector<double> x) { vector_anywhere(p) = x; }

KERNEL_FN Vector<float> load_vector(const bf16* p) { return (Vector<float>)(load_halves(p) << 16); }
KERNEL_FN Vector<float> load_vector(const f16* p) {
#if defined(__AVX512F__)
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return (Vector<float>)_mm512_maskz_cvtph_ps(0xFFFF, bits);
#elif defined(__F16C__)
  return (Vector<float>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  Vector<float> x;
  for (int i = 0; i < lanes<float>; ++i) x[i] = to_float(p[i]);
  return x;
#endif
}

// Stores a vector. The instruction treats subnormal inputs as 0.
KERNEL_FN void store_vector(bf16* p, Vector<float> x) {
#ifdef __AVX512BF16__
  constexpr int subnormal = 0x20;
  if (!_mm512_fpclass_ps_mask((__m512)x, subnormal)) [[likely]] {
    const __m256i bits = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh((__m512)x));
    return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits);
  }
#endif
  const Vector<uint32_t> bits = (Vector<uint32_t>)x;
  const Vector<uint32_t> rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const Vector<uint32_t> quiet_nan = (bits >> 16) | 0x40;
  const Vector<uint32_t> kept = (bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded;
  *reinterpret_cast<Halves*>(p) = __builtin_convertvector(kept, Halves);
}
KERNEL_FN void store_vector(f16* p, Vector<float> x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(0xFFFF, (__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < lanes<float>; ++i) p[i] = to_f16(x[i]);
#endif
}

}  // namespace booster::kernels::BOOSTER_VARIANT
