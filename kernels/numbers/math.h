// Scalar functions without branches and calls, so that a loop over them vectorises in every
// variant. Polynomials are minimax fits made for this file (scripts/fit_polynomials.py). Largest
// errors over all floats, checked by tests/kernels:
//   in units in the last place: exp_ 1.1, log_ 0.9, tanh_ 1.4, erf_ 1.5,
//     sigmoid_ 2.5 (results below 1.2e-38 may become 0), sin_ and cos_ 1.8, power 1
//   absolute: normal_cdf 1e-7, gelu_slope and gelu_tanh_slope 3e-7
// double uses the C library; integers are computed in double.
#pragma once

#include "kernels/launch/launch.h"

#include <math.h>

namespace booster::kernels::BOOSTER_VARIANT {

KERNEL_FN float float_of_bits(int32_t bits) { return __builtin_bit_cast(float, bits); }
KERNEL_FN int32_t bits_of_float(float x) { return __builtin_bit_cast(int32_t, x); }

// Rounds to an integer k by a sum without fraction bits: t = x + round_bias holds k + 254 in its
// low bits, and t - round_bias is k. 254 is twice the exponent bias.
inline constexpr float round_bias = 12582912.0f + 254.0f;

KERNEL_FN float exp_(float x) {
  const float clamped = x > 89.0f ? 89.0f : (x < -104.0f ? -104.0f : x);  // keeps nan
  const float t = clamped * 1.44269504f + round_bias;
  const float k = t - round_bias;
  const float r = (clamped - k * 0.693145752f) - k * 1.42860677e-6f;
  float p = 1.39012863e-3f;
  p = p * r + 8.36314447e-3f;
  p = p * r + 4.16668542e-2f;
  p = p * r + 1.66665778e-1f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  // 2^k as two factors, so that subnormal results and results near the largest float are correct.
  const int32_t both = bits_of_float(t);
  const int32_t half = both >> 1;
  return p * float_of_bits(half << 23) * float_of_bits((both - half) << 23);
}

// Returns 2^-x for x >= 0, within 2 units in the last place; results below 2^-126 may be 0. For
// formulae that need speed more than accuracy.
KERNEL_FN float exp2_minus(float x) {
#ifdef __CUDA_ARCH__
  float y;  // also within 2 units, and 0 where the result would be subnormal
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-x));
  return y;
#else
  const float limited = x > 127.0f ? 127.0f : x;  // keeps nan
  const float t = (round_bias - 127.0f) - limited;
  const float r = ((round_bias - 127.0f) - t) - limited;
  float p = 1.5353362e-4f;
  p = p * r + 1.33988739e-3f;
  p = p * r + 9.61843692e-3f;
  p = p * r + 5.55033237e-2f;
  p = p * r + 2.40226477e-1f;
  p = p * r + 6.93147182e-1f;
  p = p * r + 1.0f;
  return p * float_of_bits(bits_of_float(t) << 23);
#endif
}

KERNEL_FN float log_(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const uint32_t bits = uint32_t(bits_of_float(scaled));       // wraps below 0, where log is nan
  const int32_t exponent = int32_t(bits - 0x3F3504F3u) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const float f = float_of_bits(int32_t(bits - (uint32_t(exponent) << 23))) - 1.0f;
  const float k = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  float p = 7.03768283e-2f;
  p = p * f - 1.15145959e-1f;
  p = p * f + 1.16769917e-1f;
  p = p * f - 1.24201432e-1f;
  p = p * f + 1.42493233e-1f;
  p = p * f - 1.66680574e-1f;
  p = p * f + 2.00007141e-1f;
  p = p * f - 2.4999994e-1f;
  p = p * f + 3.33333313e-1f;
  const float square = f * f;
  const float tail = f * square * p + k * 1.42860677e-6f - 0.5f * square;
  const float y = tail + f + k * 0.693145752f;
  const float infinity = __builtin_inff();
  const float edge = x == 0.0f ? -infinity : (x < 0.0f ? __builtin_nanf("") : x);
  return x > 0.0f && x < infinity ? y : edge;
}

KERNEL_FN float tanh_(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = -6.09694142e-3f;
  p = p * s + 2.09973566e-2f;
  p = p * s - 5.38509525e-2f;
  p = p * s + 1.33327708e-1f;
  p = p * s - 3.33333284e-1f;
  const float small = x + x * s * p;
  const float big = 1.0f - 2.0f / (exp_(2.0f * a) + 1.0f);
  const float signed_big = x < 0.0f ? -big : big;
  return a < 0.625f ? small : signed_big;
}

// Returns e^x - 1 without cancellation at 0: 2 t / (1 - t) with t = tanh(x / 2).
KERNEL_FN float expm1_(float x) {
  const float t = tanh_(x < 0.5f ? 0.5f * x : 0.0f);
  return x < 0.5f ? 2.0f * t / (1.0f - t) : exp_(x) - 1.0f;
}

KERNEL_FN float erf_(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = 8.37838015e-5f;
  p = p * s - 8.14097701e-4f;
  p = p * s + 5.20037953e-3f;
  p = p * s - 2.68588196e-2f;
  p = p * s + 1.12836756e-1f;
  p = p * s - 3.76126319e-1f;
  p = p * s + 1.28379166e-1f;
  const float small = x + x * p;
  const float t = a < 4.0f ? a : 4.0f;  // erf(4) rounds to 1
  float q = 1.65396978e-5f;
  q = q * t - 3.72615206e-4f;
  q = q * t + 3.82599025e-3f;
  q = q * t - 2.40972266e-2f;
  q = q * t + 1.06549561e-1f;
  q = q * t + 6.35016382e-1f;
  q = q * t + 1.128667f;
  const float big = 1.0f - exp_(-q * t);
  const float signed_big = x < 0.0f ? -big : big;
  return x != x ? x : (a < 0.9277f ? small : signed_big);
}

// Returns condition ? a : b, in formulae that are also evaluated on tensors.
template <class T>
KERNEL_FN T choose(bool condition, T a, T b) {
  return condition ? a : b;
}

KERNEL_FN float sigmoid_(float x) { return 1.0f / (1.0f + exp_(-x)); }
KERNEL_FN float abs_(float x) { return __builtin_fabsf(x); }
KERNEL_FN float sqrt_(float x) { return __builtin_sqrtf(x); }
KERNEL_FN float floor_(float x) { return __builtin_floorf(x); }
KERNEL_FN float round_(float x) { return __builtin_rintf(x); }

#ifdef BOOSTER_ON_GPU

KERNEL_FN float sin_(float x) { return ::sinf(x); }
KERNEL_FN float cos_(float x) { return ::cosf(x); }
KERNEL_FN float power(float a, float b) { return ::powf(a, b); }

#else

// Numbers beyond which sin_ and cos_ are not accurate.
inline constexpr float most_of_angle = 1048576.0f;

// Returns the sine of x + quarters pi / 2. The distance from the nearest multiple of pi / 2 is a
// difference in double, since it may be as small as 1e-8.
KERNEL_FN float sin_from(float x, int32_t quarters) {
  const float shifted = x * 0.636619772f + 12582912.0f;  // its low bits hold the nearest integer
  const double k = double(shifted - 12582912.0f);
  // pi / 2 in two parts; the first has 33 bits, so that its product with k is exact
  const float r = float((double(x) - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11);
  const float square = r * r;
  float s = -1.95172994e-4f;
  s = s * square + 8.33217800e-3f;
  s = s * square - 1.66666552e-1f;
  const float sine = r + r * square * s;
  float c = 2.44384519e-5f;
  c = c * square - 1.38873677e-3f;
  c = c * square + 4.16666456e-2f;
  const float cosine = 1.0f - (0.5f * square - square * square * c);
  const int32_t turn = bits_of_float(shifted) + quarters;
  const float magnitude = turn & 1 ? cosine : sine;
  return float_of_bits(bits_of_float(magnitude) ^ ((turn & 2) << 30));
}
KERNEL_FN float sin_(float x) { return sin_from(x, 0); }
KERNEL_FN float cos_(float x) { return sin_from(x, 1); }

// Returns a^b for finite normal a > 0, as 2^(b log2 a) in double.
KERNEL_FN float power(float a, float b) {
  const uint32_t bits = uint32_t(bits_of_float(a));
  const int32_t exponent = int32_t(bits - 0x3F3504F3u) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const double m = double(float_of_bits(int32_t(bits - (uint32_t(exponent) << 23))));
  const double s = (m - 1.0) / (m + 1.0), square = s * s;
  double p = 0.33659508760763812;
  p = p * square + 0.41190094118628467;
  p = p * square + 0.57707977782050923;
  p = p * square + 0.96179669230170628;
  const double log2_a = double(exponent) + (s * 2.8853900817779268 + s * square * p);
  const double y = double(b) * log2_a;
  const double limited = y > 200.0 ? 200.0 : (y < -200.0 ? -200.0 : y);
  const double shifted = limited + 6755399441055744.0;  // its low bits hold the nearest integer
  const double f = limited - (shifted - 6755399441055744.0);
  double q = 1.5403512582205073e-4;
  q = q * f + 1.3390735477265380e-3;
  q = q * f + 9.6182374942877114e-3;
  q = q * f + 5.5503574336373075e-2;
  q = q * f + 2.4022649794963097e-1;
  q = q * f + 6.9314718792669117e-1;
  q = q * f + 1.0;
  const int64_t two_to_k =
      __builtin_bit_cast(int64_t, q) + (__builtin_bit_cast(int64_t, shifted) << 52);
  return float(__builtin_bit_cast(double, two_to_k));
}

#endif

KERNEL_FN double exp_(double x) { return ::exp(x); }
KERNEL_FN double expm1_(double x) { return ::expm1(x); }
KERNEL_FN double log_(double x) { return ::log(x); }
KERNEL_FN double tanh_(double x) { return ::tanh(x); }
KERNEL_FN double erf_(double x) { return ::erf(x); }
KERNEL_FN double sigmoid_(double x) { return 1.0 / (1.0 + ::exp(-x)); }
KERNEL_FN double abs_(double x) { return __builtin_fabs(x); }
KERNEL_FN double sqrt_(double x) { return __builtin_sqrt(x); }
KERNEL_FN double sin_(double x) { return ::sin(x); }
KERNEL_FN double cos_(double x) { return ::cos(x); }
KERNEL_FN double floor_(double x) { return __builtin_floor(x); }
KERNEL_FN double round_(double x) { return __builtin_rint(x); }
KERNEL_FN double power(double a, double b) { return ::pow(a, b); }

// Functions of integers: exact if the function is; else computed in double and truncated.
KERNEL_FN int64_t exp_(int64_t x) { return int64_t(::exp(double(x))); }
KERNEL_FN int64_t expm1_(int64_t x) { return int64_t(::expm1(double(x))); }
KERNEL_FN int64_t log_(int64_t x) { return int64_t(::log(double(x))); }
KERNEL_FN int64_t tanh_(int64_t x) { return int64_t(::tanh(double(x))); }
KERNEL_FN int64_t erf_(int64_t x) { return int64_t(::erf(double(x))); }
KERNEL_FN int64_t sigmoid_(int64_t x) { return int64_t(sigmoid_(double(x))); }
KERNEL_FN int64_t abs_(int64_t x) { return x < 0 ? -x : x; }
KERNEL_FN int64_t sqrt_(int64_t x) { return int64_t(__builtin_sqrt(double(x))); }
KERNEL_FN int64_t sin_(int64_t x) { return int64_t(::sin(double(x))); }
KERNEL_FN int64_t cos_(int64_t x) { return int64_t(::cos(double(x))); }
KERNEL_FN int64_t floor_(int64_t x) { return x; }
KERNEL_FN int64_t round_(int64_t x) { return x; }
// Returns a^b; overflow wraps around. Negative powers are truncated, mostly to 0; 1 / 0 also gives
// 0.
KERNEL_FN int64_t power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;
  uint64_t y = 1, factor = uint64_t(a);
  for (; b > 0; b >>= 1, factor *= factor)
    if (b & 1) y *= factor;
  return int64_t(y);
}

// Returns log(1 + x) for x >= 0. The factor x / (sum - 1) corrects the rounding of the sum.
KERNEL_FN float log1p_(float x) {
  const float sum = 1.0f + x, kept = sum - 1.0f;
  return kept == 0.0f ? x : log_(sum) * (x / kept);
}
KERNEL_FN double log1p_(double x) { return ::log1p(x); }
KERNEL_FN int64_t log1p_(int64_t x) { return int64_t(::log1p(double(x))); }

// Returns max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor cancels.
template <class T>
KERNEL_FN T softplus_(T x) {
  const T a = x < T(0) ? -x : x;
  return (x > T(0) ? x : T(0)) + log1p_(exp_(-a));
}

// Returns the cumulative distribution of the standard normal, the factor of exact GELU (Hendrycks
// and Gimpel).
KERNEL_FN double normal_cdf(double x) { return 0.5 * ::erfc(-0.70710678118654752 * x); }
KERNEL_FN int64_t normal_cdf(int64_t x) { return int64_t(normal_cdf(double(x))); }
// Uses the polynomial -log2(2 (1 - cdf(t))) / t. Absolute error 1e-7; exactly 0 and 1 for large
// |x|.
KERNEL_FN float normal_cdf(float x) {
  const float t = x < 0.0f ? -x : x;
  float p = 1.10596693e-6f;
  p = p * t - 1.90861629e-5f;
  p = p * t + 9.42990155e-5f;
  p = p * t + 3.42412532e-4f;
  p = p * t - 7.30392663e-3f;
  p = p * t + 5.26393577e-2f;
  p = p * t + 4.59169835e-1f;
  p = p * t + 1.1511085f;
  const float tail = 0.5f * exp2_minus(p * t);
  return x < 0.0f ? tail : 1.0f - tail;
}

// exp(-x^2 / 2)
KERNEL_FN double bell(double x) { return ::exp(-0.5 * x * x); }
KERNEL_FN int64_t bell(int64_t x) { return int64_t(bell(double(x))); }
KERNEL_FN float bell(float x) { return exp2_minus(x * x * 0.72134752f); }

// Returns d gelu / dx = cdf(x) + x pdf(x).
template <class T>
KERNEL_FN T gelu_slope(T x) {
  return normal_cdf(x) + x * T(0.39894228040143268) * bell(x);
}
// Returns the tanh form 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x
// sigmoid(2 u).
template <class T>
KERNEL_FN T gelu_tanh_(T x) {
  return x * sigmoid_(T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x));
}
// Returns s + x s (1 - s) dv/dx, with v = 2 u. s (1 - s) comes from exp(-|v|), which does not
// cancel.
template <class T>
KERNEL_FN T gelu_tanh_slope(T x) {
  const T v = T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x);
  const T slope_of_v = T(1.5957691216057308) * (T(1) + T(0.134145) * x * x);
  const T small = exp_(v < T(0) ? v : -v);
  const T large = T(1) / (T(1) + small);
  const T s = v < T(0) ? small * large : large;
  return s + x * (small * large * large) * slope_of_v;
}
template <class T>
KERNEL_FN T silu_slope(T x) {
  const T s = sigmoid_(x);
  return s * (T(1) + x * (T(1) - s));
}

template <class T>
KERNEL_FN T divide(T a, T b) {
  return a / b;
}
KERNEL_FN int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : (b == -1 ? -a : a / b); }

// Returns the maximum; nan propagates, as in PyTorch.
template <class T>
KERNEL_FN T maximum_(T a, T b) {
  return a != a ? a : (b != b ? b : (a > b ? a : b));
}
template <class T>
KERNEL_FN T minimum_(T a, T b) {
  return a != a ? a : (b != b ? b : (a < b ? a : b));
}

// Returns the part of maximum(a, b)'s gradient that goes to a: half of it if both are equal. As in
// PyTorch, nan counts as the larger one on both sides.
template <class T>
KERNEL_FN T larger_slope(T g, T a, T b) {
  return a < b ? T(0) : (a == b ? g * T(0.5) : g);
}

template <class T>
KERNEL_FN T pow_(T a, T b) {
  return b == T(2) ? a * a : (b == T(1) ? a : (b == T(0) ? T(1) : power(a, b)));
}
// Returns x, or 0 if the factor is 0, because infinity times 0 would be nan.
template <class T>
KERNEL_FN T counted(T x, T factor) {
  return factor == T(0) ? T(0) : x;
}
template <class T>
KERNEL_FN T pow_base_slope(T g, T a, T b) {
  return b == T(0) ? T(0) : g * b * pow_(a, b - T(1));
}
// Returns g y log a, and 0 where a = 0 and b >= 0 (the limit).
template <class T>
KERNEL_FN T pow_exponent_slope(T g, T a, T b, T y) {
  return a == T(0) && b >= T(0) ? T(0) : g * y * log_(a);
}

// Functions of the C library, for rows of elementwise.def that few programs call often.
#define LIBRARY_FN(name, in_float, in_double)                \
  KERNEL_FN float name(float x) { return ::in_float(x); }    \
  KERNEL_FN double name(double x) { return ::in_double(x); } \
  KERNEL_FN int64_t name(int64_t x) { return int64_t(::in_double(double(x))); }
LIBRARY_FN(asin_, asinf, asin)
LIBRARY_FN(acos_, acosf, acos)
LIBRARY_FN(atan_, atanf, atan)
LIBRARY_FN(sinh_, sinhf, sinh)
LIBRARY_FN(cosh_, coshf, cosh)
LIBRARY_FN(asinh_, asinhf, asinh)
LIBRARY_FN(acosh_, acoshf, acosh)
LIBRARY_FN(atanh_, atanhf, atanh)
LIBRARY_FN(tan_, tanf, tan)
LIBRARY_FN(erfc_, erfcf, erfc)
#undef LIBRARY_FN
KERNEL_FN float atan2_(float a, float b) { return ::atan2f(a, b); }
KERNEL_FN double atan2_(double a, double b) { return ::atan2(a, b); }
KERNEL_FN int64_t atan2_(int64_t a, int64_t b) { return int64_t(::atan2(double(a), double(b))); }

template <class T>
KERNEL_FN T trunc_(T x) {
  return x < T(0) ? -floor_(-x) : floor_(x);
}
// Returns log(1 + x) for every x > -1, infinity included.
template <class T>
KERNEL_FN T log1p_of_any(T x) {
  return x < T(1e9) ? log1p_(x) : log_(x);
}
// Returns the rest of a / b with b's sign, exactly; 0 for an integer b of 0.
KERNEL_FN float rest_of(float a, float b) { return ::fmodf(a, b); }
KERNEL_FN double rest_of(double a, double b) { return ::fmod(a, b); }
template <class T>
KERNEL_FN T remainder_(T a, T b) {
  const T rest = rest_of(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}
KERNEL_FN int64_t remainder_(int64_t a, int64_t b) {
  const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// Returns log(exp(a) + exp(b)); equal arguments may be infinite.
template <class T>
KERNEL_FN T logaddexp_(T a, T b) {
  const T sum = maximum_(a, b) + log1p_(exp_(-abs_(a - b)));
  return a == b ? a + T(0.6931471805599453) : sum;
}

// x within [low, high]; nan stays
template <class T>
KERNEL_FN T within(T x, T low, T high) {
  return x < low ? low : (x > high ? high : x);
}
// Returns d mish / dx, with mish = x tanh(softplus(x)).
template <class T>
KERNEL_FN T mish_slope(T x) {
  const T t = tanh_(softplus_(x));
  return t + x * (T(1) - t * t) * sigmoid_(x);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
