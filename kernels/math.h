// Scalar functions that vectorise: no branches, no calls, so a loop over them becomes SIMD in every
// variant. Polynomials are least-maximum fits made for this file (scripts/fit_polynomials.py).
// Largest error over all floats, measured by tests/kernels: exp_ 1, log_ 1.5, tanh_ 2, erf_ 1.5,
// sigmoid_ 2.5 units in the last place. double goes to the C library; integers pass through double.
#pragma once

#include "kernels/launch.h"

#include <math.h>

namespace booster::kernels::BOOSTER_VARIANT {

KERNEL_FN float float_of_bits(int32_t bits) { return __builtin_bit_cast(float, bits); }
KERNEL_FN int32_t bits_of_float(float x) { return __builtin_bit_cast(int32_t, x); }

// Round to the nearest integer, |x| < 2^22: the sum has no room for a fraction.
KERNEL_FN float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

KERNEL_FN float exp_(float x) {
  const float clamped = x > 89.0f ? 89.0f : (x < -104.0f ? -104.0f : x);
  const float k = nearest(clamped * 1.44269504f);
  const float r = (clamped - k * 0.693145752f) - k * 1.42860677e-6f;
  float p = 1.3901285e-3f;
  p = p * r + 8.3631444e-3f;
  p = p * r + 4.1666854e-2f;
  p = p * r + 1.6666578e-1f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  // 2^k in two factors, so that results that are subnormal or near the largest float come out right.
  const int32_t half = static_cast<int32_t>(k) >> 1;
  const int32_t rest = static_cast<int32_t>(k) - half;
  const float y = p * float_of_bits((half + 127) << 23) * float_of_bits((rest + 127) << 23);
  return x != x ? x : y;
}

KERNEL_FN float log_(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const int32_t bits = bits_of_float(scaled);
  const int32_t exponent = (bits - 0x3F3504F3) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const float f = float_of_bits(bits - exponent * (1 << 23)) - 1.0f;
  const float k = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  float p = 7.0376568e-2f;
  p = p * f - 1.1514591e-1f;
  p = p * f + 1.1676999e-1f;
  p = p * f - 1.2420144e-1f;
  p = p * f + 1.4249323e-1f;
  p = p * f - 1.6668057e-1f;
  p = p * f + 2.0000714e-1f;
  p = p * f - 2.4999994e-1f;
  p = p * f + 3.3333331e-1f;
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
  float p = -6.0969354e-3f;
  p = p * s + 2.0997353e-2f;
  p = p * s - 5.3850953e-2f;
  p = p * s + 1.3332771e-1f;
  p = p * s - 3.3333328e-1f;
  const float small = x + x * s * p;
  const float big = 1.0f - 2.0f / (exp_(2.0f * a) + 1.0f);
  const float signed_big = x < 0.0f ? -big : big;
  return a < 0.625f ? small : signed_big;
}

KERNEL_FN float erf_(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = 8.3783779e-5f;
  p = p * s - 8.1409770e-4f;
  p = p * s + 5.2003795e-3f;
  p = p * s - 2.6858820e-2f;
  p = p * s + 1.1283676e-1f;
  p = p * s - 3.7612632e-1f;
  p = p * s + 1.2837917e-1f;
  const float small = x + x * p;
  const float t = a < 4.0f ? a : 4.0f;  // erf(4) rounds to 1
  float q = 1.6539707e-5f;
  q = q * t - 3.7261854e-4f;
  q = q * t + 3.8259912e-3f;
  q = q * t - 2.4097230e-2f;
  q = q * t + 1.0654956e-1f;
  q = q * t + 6.3501638e-1f;
  q = q * t + 1.1286670f;
  const float big = 1.0f - exp_(-q * t);
  const float signed_big = x < 0.0f ? -big : big;
  return x != x ? x : (a < 0.9277f ? small : signed_big);
}

KERNEL_FN float sigmoid_(float x) { return 1.0f / (1.0f + exp_(-x)); }
KERNEL_FN float sqrt_(float x) { return __builtin_sqrtf(x); }
KERNEL_FN float sin_(float x) { return ::sinf(x); }
KERNEL_FN float cos_(float x) { return ::cosf(x); }
KERNEL_FN float floor_(float x) { return __builtin_floorf(x); }
KERNEL_FN float round_(float x) { return __builtin_rintf(x); }
KERNEL_FN float power(float a, float b) { return ::powf(a, b); }

KERNEL_FN double exp_(double x) { return ::exp(x); }
KERNEL_FN double log_(double x) { return ::log(x); }
KERNEL_FN double tanh_(double x) { return ::tanh(x); }
KERNEL_FN double erf_(double x) { return ::erf(x); }
KERNEL_FN double sigmoid_(double x) { return 1.0 / (1.0 + ::exp(-x)); }
KERNEL_FN double sqrt_(double x) { return __builtin_sqrt(x); }
KERNEL_FN double sin_(double x) { return ::sin(x); }
KERNEL_FN double cos_(double x) { return ::cos(x); }
KERNEL_FN double floor_(double x) { return __builtin_floor(x); }
KERNEL_FN double round_(double x) { return __builtin_rint(x); }
KERNEL_FN double power(double a, double b) { return ::pow(a, b); }

// Integers: exact where the function is, else through double and truncated.
KERNEL_FN int64_t exp_(int64_t x) { return int64_t(::exp(double(x))); }
KERNEL_FN int64_t log_(int64_t x) { return int64_t(::log(double(x))); }
KERNEL_FN int64_t tanh_(int64_t x) { return int64_t(::tanh(double(x))); }
KERNEL_FN int64_t erf_(int64_t x) { return int64_t(::erf(double(x))); }
KERNEL_FN int64_t sigmoid_(int64_t x) { return int64_t(sigmoid_(double(x))); }
KERNEL_FN int64_t sqrt_(int64_t x) { return int64_t(__builtin_sqrt(double(x))); }
KERNEL_FN int64_t sin_(int64_t x) { return int64_t(::sin(double(x))); }
KERNEL_FN int64_t cos_(int64_t x) { return int64_t(::cos(double(x))); }
KERNEL_FN int64_t floor_(int64_t x) { return x; }
KERNEL_FN int64_t round_(int64_t x) { return x; }
KERNEL_FN int64_t power(int64_t a, int64_t b) {
  int64_t y = 1;
  for (; b > 0; b >>= 1, a *= a)
    if (b & 1) y *= a;
  return y;
}

// max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor cancels.
template <class T>
KERNEL_FN T softplus_(T x) {
  const T a = x < T(0) ? -x : x;
  return (x > T(0) ? x : T(0)) + log_(T(1) + exp_(-a));
}

// Cumulative distribution of the standard normal, the factor of exact GELU (Hendrycks and Gimpel).
template <class T>
KERNEL_FN T normal_cdf(T x) {
  return T(0.5) * (T(1) + erf_(x * T(0.70710678118654752)));
}
// d gelu / dx = cdf(x) + x pdf(x)
template <class T>
KERNEL_FN T gelu_slope(T x) {
  return normal_cdf(x) + x * T(0.39894228040143268) * exp_(T(-0.5) * x * x);
}
// The tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
template <class T>
KERNEL_FN T gelu_tanh_(T x) {
  const T inner = T(0.79788456080286536) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + tanh_(inner));
}
template <class T>
KERNEL_FN T gelu_tanh_slope(T x) {
  const T t = tanh_(T(0.79788456080286536) * (x + T(0.044715) * x * x * x));
  const T inner_slope = T(0.79788456080286536) * (T(1) + T(0.134145) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_slope;
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

// nan wins, as in PyTorch.
template <class T>
KERNEL_FN T maximum_(T a, T b) {
  return a != a ? a : (b != b ? b : (a > b ? a : b));
}
template <class T>
KERNEL_FN T minimum_(T a, T b) {
  return a != a ? a : (b != b ? b : (a < b ? a : b));
}

template <class T>
KERNEL_FN T pow_(T a, T b) {
  return b == T(2) ? a * a : (b == T(1) ? a : (b == T(0) ? T(1) : power(a, b)));
}
template <class T>
KERNEL_FN T pow_base_slope(T g, T a, T b) {
  return b == T(0) ? T(0) : g * b * pow_(a, b - T(1));
}
// y log a, and 0 where a = 0 and b >= 0 (the limit)
template <class T>
KERNEL_FN T pow_exponent_slope(T g, T a, T b, T y) {
  return a == T(0) && b >= T(0) ? T(0) : g * y * log_(a);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
