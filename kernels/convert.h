// Numbers in and out of the compute type: f32, f16 and bf16 compute in float, f64 in double,
// integers and bool in int64_t. Rounding to 16 bits is to nearest even, subnormals kept, the same
// bits on every variant and device. Whole runs are converted at once so that loops vectorise.
#pragma once

#include "kernels/launch.h"

#if defined(__F16C__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

namespace booster::kernels::BOOSTER_VARIANT {

struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };
using boolean = bool;

KERNEL_FN float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
KERNEL_FN uint32_t float_to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }

KERNEL_FN float to_float(bf16 x) { return bits_to_float(uint32_t(x.bits) << 16); }
KERNEL_FN bf16 to_bf16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return {static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded)};
}

// f16 fields moved into f32 place: multiplying by 2^112 corrects the exponent bias and makes
// subnormals normal; exponent 31 becomes 255.
KERNEL_FN float to_float(f16 x) {
  const uint32_t magnitude = uint32_t(x.bits & 0x7FFF) << 13;
  const uint32_t finite = float_to_bits(bits_to_float(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7F800000;
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
  return bits_to_float(((x.bits & 0x7C00) == 0x7C00 ? special : finite) | sign);
}
// Normal results round by integer arithmetic on the bits; subnormal ones by adding 0.5, whose last
// place is the last place of a subnormal f16 times 2^0 (2^-24), which leaves the result in the low bits.
KERNEL_FN f16 to_f16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t subnormal = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3F000000;
  const uint32_t overflow = magnitude > 0x7F800000 ? 0x7E00 | ((magnitude >> 13) & 0x3FF) : 0x7C00;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  return {static_cast<uint16_t>((magnitude >= 0x477FF000 ? overflow : finite) | ((bits >> 16) & 0x8000))};
}

// One element in any dtype as compute type C and back.
template <class C> KERNEL_FN C load(const float* p) { return C(*p); }
template <class C> KERNEL_FN C load(const double* p) { return C(*p); }
template <class C> KERNEL_FN C load(const f16* p) { return C(to_float(*p)); }
template <class C> KERNEL_FN C load(const bf16* p) { return C(to_float(*p)); }
template <class C> KERNEL_FN C load(const int32_t* p) { return C(*p); }
template <class C> KERNEL_FN C load(const int64_t* p) { return C(*p); }
template <class C> KERNEL_FN C load(const uint8_t* p) { return C(*p); }
template <class C> KERNEL_FN C load(const bool* p) { return C(*p); }
template <class C> KERNEL_FN void store(float* p, C x) { *p = float(x); }
template <class C> KERNEL_FN void store(double* p, C x) { *p = double(x); }
template <class C> KERNEL_FN void store(f16* p, C x) { *p = to_f16(float(x)); }
template <class C> KERNEL_FN void store(bf16* p, C x) { *p = to_bf16(float(x)); }
template <class C> KERNEL_FN void store(int32_t* p, C x) { *p = int32_t(int64_t(x)); }
template <class C> KERNEL_FN void store(int64_t* p, C x) { *p = int64_t(x); }
template <class C> KERNEL_FN void store(uint8_t* p, C x) { *p = uint8_t(int64_t(x)); }
template <class C> KERNEL_FN void store(bool* p, C x) { *p = x != C(0); }

// Calls f with a typed null pointer that stands for the dtype.
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

#ifndef __CUDACC__

// dst[i] = src[i * stride], n of them.
template <class C>
void load_run(C* dst, const void* src, DType dtype, int64_t stride, int64_t n) {
  visit(dtype, [&](auto* type) {
    const auto* p = static_cast<decltype(type)>(const_cast<void*>(src));
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) dst[i] = load<C>(p + i);
    } else if (stride == 0) {
      const C value = load<C>(p);
      for (int64_t i = 0; i < n; ++i) dst[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = load<C>(p + i * stride);
    }
  });
}

// dst[i * stride] = src[i], n of them.
template <class C>
void store_run(void* dst, DType dtype, int64_t stride, const C* src, int64_t n) {
  visit(dtype, [&](auto* type) {
    auto* p = static_cast<decltype(type)>(dst);
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) store<C>(p + i, src[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) store<C>(p + i * stride, src[i]);
    }
  });
}

template <class C> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::i64; };

// n elements of a row as compute type C: the row itself where it already has that type, else
// converted into `buffer`.
template <class C>
const C* read_row(const View& x, int64_t element, int64_t n, C* buffer) {
  const char* p = x.as<const char>() + element * size_of(x.dtype);
  if (x.dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  load_run(buffer, p, x.dtype, 1, n);
  return buffer;
}

// Where to compute n elements of an output row: in place, or in `buffer` (then call write_row).
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
