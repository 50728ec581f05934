// Conversion to and from the compute type: float for f32, f16 and bf16, double for f64, int64_t for
// integers and bool. Rounding to 16 bits is to nearest even, keeps subnormals, and gives the same
// bits on every variant and device. Only the bits of a nan differ on a GPU, which has instructions
// for it. Whole runs are converted at once so that loops vectorise.
#pragma once

#include "kernels/launch/launch.h"

#if defined(__F16C__) && !defined(BOOSTER_ON_GPU)
#include <immintrin.h>
#endif

namespace booster::kernels::BOOSTER_VARIANT {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
using boolean = bool;

KERNEL_FN float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
KERNEL_FN uint32_t float_to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }

KERNEL_FN float to_float(bf16 x) { return bits_to_float(uint32_t(x.bits) << 16); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

KERNEL_FN bf16 to_bf16(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
KERNEL_FN float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
KERNEL_FN f16 to_f16(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

#else

KERNEL_FN bf16 to_bf16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return {static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded)};
}

// Moves f16's fields to f32's positions. Multiplying by 2^112 corrects the exponent bias and makes
// subnormals normal. Exponent 31 becomes 255, and a nan becomes quiet.
KERNEL_FN float to_float(f16 x) {
  const uint32_t magnitude = uint32_t(x.bits & 0x7FFF) << 13;
  const uint32_t finite = float_to_bits(bits_to_float(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | (magnitude > 0x0F800000 ? 0x7FC00000 : 0x7F800000);
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
  return bits_to_float(((x.bits & 0x7C00) == 0x7C00 ? special : finite) | sign);
}
// Rounds normal results by integer arithmetic on the bits. For subnormal results, adds 0.5, whose
// unit in the last place is the step of subnormal f16 (2^-24); the low bits are then the result.
KERNEL_FN f16 to_f16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t subnormal = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3F000000;
  const uint32_t overflow = magnitude > 0x7F800000 ? 0x7E00 | ((magnitude >> 13) & 0x3FF) : 0x7C00;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  return {static_cast<uint16_t>((magnitude >= 0x477FF000 ? overflow : finite) |
                                ((bits >> 16) & 0x8000))};
}

#endif

// Convert one element in any dtype as compute type C and back; integers are stored via int64_t.
template <class C, class T>
KERNEL_FN C load(const T* p) {
  if constexpr (__is_same(T, f16) || __is_same(T, bf16))
    return C(to_float(*p));
  else
    return C(*p);
}
template <class C, class T>
KERNEL_FN void store(T* p, C x) {
  if constexpr (__is_same(T, f16))
    *p = to_f16(float(x));
  else if constexpr (__is_same(T, bf16))
    *p = to_bf16(float(x));
  else if constexpr (__is_same(T, float) || __is_same(T, double))
    *p = T(x);
  else if constexpr (__is_same(T, bool))
    *p = x != C(0);
  else
    *p = T(int64_t(x));
}

// Precedes a KERNEL_FN that calls its argument: the host passes host functions, a kernel passes
// device functions.
#ifdef BOOSTER_ON_GPU
#define CALLS_EITHER_SIDE _Pragma("nv_exec_check_disable")
#else
#define CALLS_EITHER_SIDE
#endif

// Calls f with a typed null pointer that represents the dtype.
CALLS_EITHER_SIDE
template <class F>
KERNEL_FN void visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(static_cast<float*>(nullptr));
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::f16: return f(static_cast<f16*>(nullptr));
    case DType::bf16: return f(static_cast<bf16*>(nullptr));
    case DType::i32: return f(static_cast<int32_t*>(nullptr));
    case DType::i64: return f(static_cast<int64_t*>(nullptr));
    case DType::u8: return f(static_cast<uint8_t*>(nullptr));
    case DType::boolean: return f(static_cast<bool*>(nullptr));
  }
}

// Calls f with a typed null pointer that represents a floating dtype.
CALLS_EITHER_SIDE
template <class F>
KERNEL_FN void visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::f16: return f(static_cast<f16*>(nullptr));
    case DType::bf16: return f(static_cast<bf16*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// Calls f with a typed null pointer that represents the compute type of a floating dtype.
CALLS_EITHER_SIDE
template <class F>
KERNEL_FN void visit_compute(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(static_cast<double*>(nullptr));
  f(static_cast<float*>(nullptr));
}

// Reads or writes element i of a run whose dtype is known only at run time.
template <class C>
KERNEL_FN C load_any(const void* run, DType dtype, int64_t i) {
  C x = C(0);
  visit(dtype, [&]<class T>(T*) { x = load<C>(static_cast<const T*>(run) + i); });
  return x;
}
template <class C>
KERNEL_FN void store_any(void* run, DType dtype, int64_t i, C x) {
  visit(dtype, [&](auto* type) { store<C>(static_cast<decltype(type)>(run) + i, x); });
}

#ifndef BOOSTER_ON_GPU

// Set dst[i] = src[i] for n elements, by loops that vectorise. Overloads below use the instructions
// for 16-bit types if available. Both give the same bits.
template <class C, class T>
KERNEL_FN void load_dense(C* dst, const T* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = load<C>(src + i);
}
template <class C, class T>
KERNEL_FN void store_dense(T* dst, const C* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store<C>(dst + i, src[i]);
}

#if defined(__AVX512F__)

// Calls body(i, mask) for each 16 elements from i on; the mask excludes elements from n on.
template <class Body>
KERNEL_FN void for_each_16(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, __mmask16(0xFFFF));
  if (i < n) body(i, __mmask16((1u << (n - i)) - 1));
}

KERNEL_FN void load_dense(float* dst, const f16* src, int64_t n) {
  for_each_16(n, [=](int64_t i, __mmask16 mask) {
    const __m256i bits = _mm256_maskz_loadu_epi16(mask, src + i);
    _mm512_mask_storeu_ps(dst + i, mask, _mm512_maskz_cvtph_ps(mask, bits));
  });
}
KERNEL_FN void store_dense(f16* dst, const float* src, int64_t n) {
  for_each_16(n, [=](int64_t i, __mmask16 mask) {
    const __m512 values = _mm512_maskz_loadu_ps(mask, src + i);
    _mm256_mask_storeu_epi16(dst + i, mask,
                             _mm512_maskz_cvtps_ph(mask, values, _MM_FROUND_TO_NEAREST_INT));
  });
}
KERNEL_FN void load_dense(float* dst, const bf16* src, int64_t n) {
  for_each_16(n, [=](int64_t i, __mmask16 mask) {
    const __m512i bits = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, src + i));
    _mm512_mask_storeu_epi32(dst + i, mask, _mm512_maskz_slli_epi32(mask, bits, 16));
  });
}

#elif defined(__F16C__)

KERNEL_FN void load_dense(float* dst, const f16* src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(bits));
  }
  for (; i < n; ++i) dst[i] = to_float(src[i]);
}
KERNEL_FN void store_dense(f16* dst, const float* src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), bits);
  }
  for (; i < n; ++i) dst[i] = to_f16(src[i]);
}

#endif

#if defined(__AVX512BF16__)

// Stores a run. The instruction treats subnormal inputs as 0, so groups of 16 that contain one use
// scalar code.
KERNEL_FN void store_dense(bf16* dst, const float* src, int64_t n) {
  constexpr int subnormal = 0x20;
  for_each_16(n, [=](int64_t i, __mmask16 mask) {
    const __m512 values = _mm512_maskz_loadu_ps(mask, src + i);
    if (_mm512_fpclass_ps_mask(values, subnormal)) [[unlikely]] {
      for (int k = 0; k < 16 && (mask >> k & 1); ++k) dst[i + k] = to_bf16(src[i + k]);
    } else {
      const __m256i bits = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(values));
      _mm256_mask_storeu_epi16(dst + i, mask, bits);
    }
  });
}

#endif

// Sets dst[i] = src[i * stride] for n elements.
template <class C>
void load_run(C* dst, const void* src, DType dtype, int64_t stride, int64_t n) {
  visit(dtype, [&](auto* type) {
    const auto* p = static_cast<decltype(type)>(const_cast<void*>(src));
    if (stride == 1) {
      load_dense(dst, p, n);
    } else if (stride == 0) {
      const C value = load<C>(p);
      for (int64_t i = 0; i < n; ++i) dst[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = load<C>(p + i * stride);
    }
  });
}

// Sets dst[i * stride] = src[i] for n elements.
template <class C>
void store_run(void* dst, DType dtype, int64_t stride, const C* src, int64_t n) {
  visit(dtype, [&](auto* type) {
    auto* p = static_cast<decltype(type)>(dst);
    if (stride == 1) {
      store_dense(p, src, n);
    } else {
      for (int64_t i = 0; i < n; ++i) store<C>(p + i * stride, src[i]);
    }
  });
}

template <class C>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};

// Returns n elements of a row as compute type C: the row itself if it already has that type, else
// converted into `buffer`.
template <class C>
const C* read_row(const View& x, int64_t element, int64_t n, C* buffer) {
  const char* p = x.as<const char>() + element * size_of(x.dtype);
  if (x.dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  load_run(buffer, p, x.dtype, 1, n);
  return buffer;
}

// Returns where to compute n elements of an output row: in place, or `buffer` (then call
// write_row).
template <class C>
C* row_target(const View& y, int64_t element, C* buffer) {
  return y.dtype == DTypeOf<C>::value ? y.as<C>() + element : buffer;
}
template <class C>
void write_row(const View& y, int64_t element, int64_t n, const C* values) {
  char* p = y.as<char>() + element * size_of(y.dtype);
  if (reinterpret_cast<const char*>(values) != p) store_run(p, y.dtype, 1, values, n);
}

#endif

}  // namespace booster::kernels::BOOSTER_VARIANT
