// Conversion of dense runs from one dtype to another, on the CPU.
#pragma once

#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The type in which a number is converted: it holds every value of T.
template <class T>
struct Widened {
  using type = T;
};
template <>
struct Widened<uint8_t> {
  using type = int32_t;
};
template <>
struct Widened<bool> {
  using type = int32_t;
};

template <class T>
constexpr bool has_16_bits = __is_same(T, f16) || __is_same(T, bf16);

template <class To, class From>
void convert_plain(To* to, const From* from, int64_t n) {
  using W = typename Widened<From>::type;
  for (int64_t i = 0; i < n; ++i) {
    const W x = W(from[i]);
    if constexpr (__is_same(To, bool))
      reinterpret_cast<uint8_t*>(to)[i] = x != W(0);
    else if constexpr (__is_same(To, float) || __is_same(To, double))
      to[i] = To(x);
    else if constexpr (__is_same(W, int32_t))
      to[i] = To(x);
    else
      to[i] = To(int64_t(x));
  }
}

// Sets to[i] = from[i]. Numbers of 16 bits are converted by way of compute type C.
template <class C>
void convert_run(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t n) {
  if (to_dtype == DTypeOf<C>::value && is_16_bit(from_dtype))
    return load_run(static_cast<C*>(to), from, from_dtype, 1, n);
  if (from_dtype == DTypeOf<C>::value && is_16_bit(to_dtype))
    return store_run(to, to_dtype, 1, static_cast<const C*>(from), n);
  if (!is_16_bit(to_dtype) && !is_16_bit(from_dtype))
    return visit(from_dtype, [&]<class From>(From*) {
      visit(to_dtype, [&]<class To>(To*) {
        if constexpr (!has_16_bits<From> && !has_16_bits<To>)
          convert_plain(static_cast<To*>(to), static_cast<const From*>(from), n);
      });
    });
  constexpr int64_t at_once = 512;
  alignas(64) C buffer[at_once];
  for (int64_t i = 0; i < n; i += at_once) {
    const int64_t count = n - i < at_once ? n - i : at_once;
    load_run(buffer, static_cast<const char*>(from) + i * size_of(from_dtype), from_dtype, 1,
             count);
    store_run(static_cast<char*>(to) + i * size_of(to_dtype), to_dtype, 1, buffer, count);
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT
