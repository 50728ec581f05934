// Folds, which reduce numbers to one: the value of a number, and the combination of two values. For
// the CPU.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct SumType {
  using type = double;
};
template <>
struct SumType<int64_t> {
  using type = int64_t;
};

// A fold turns numbers of compute type C into a Value each and combines these into one.
template <class C>
struct Sum {
  using Number = C;
  using Value = typename SumType<C>::type;
  static constexpr Value identity = 0;
  KERNEL_FN static Value of(C x) { return Value(x); }
  KERNEL_FN static Value combine(Value a, Value b) { return a + b; }
  KERNEL_FN static Value combine_lane(Value a, Value b) { return a + b; }
};
template <class C>
struct Squares : Sum<C> {
  using typename Sum<C>::Value;
  KERNEL_FN static Value of(C x) { return Value(x) * Value(x); }
};
// Counts zeros, or nonzeros.
template <class C, bool zero>
struct Count : Sum<C> {
  using typename Sum<C>::Value;
  KERNEL_FN static Value of(C x) { return Value((x == C(0)) == zero); }
};

template <class C>
constexpr C lowest = C(-__builtin_inf());
template <>
constexpr int64_t lowest<int64_t> = INT64_MIN;
template <class C>
constexpr C highest = C(__builtin_inf());
template <>
constexpr int64_t highest<int64_t> = INT64_MAX;

template <class C, bool largest>
struct Extreme {
  using Number = C;
  using Value = C;
  static constexpr bool is_largest = largest;
  static constexpr C identity = largest ? lowest<C> : highest<C>;
  KERNEL_FN static C of(C x) { return x; }
  KERNEL_FN static C combine(C a, C b) { return largest ? maximum_(a, b) : minimum_(a, b); }
  // The same for lanes: g++ vectorises this form there, and the other one in loops over columns.
  KERNEL_FN static C combine_lane(C a, C b) {
    const bool keeps = (a != a) | (largest ? a >= b : a <= b);
    return keeps ? a : b;
  }
};

// Converts a run. One function for all callers, because it has code for every dtype.
template <class C>
[[gnu::noinline]] const C* converted(const void* p, DType dtype, int64_t stride, int64_t n,
                                     C* buffer) {
  load_run(buffer, p, dtype, stride, n);
  return buffer;
}

// Returns n numbers of x as compute type C: where they lie, or converted into `buffer`.
template <class C>
const C* read(const View& x, int64_t offset, int64_t stride, int64_t n, C* buffer) {
  const char* p = x.as<const char>() + offset * size_of(x.dtype);
  if (stride == 1 && x.dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  return converted(p, x.dtype, stride, n, buffer);
}

inline constexpr int64_t run = 1024;  // numbers that are converted at once

// Partial results that are used in turn: the same number for each column. `fixed` is their number,
// if it is a compile-time constant.
template <class Fold, int fixed>
struct Lanes {
  using Value = typename Fold::Value;
  static constexpr int most = fixed ? fixed : 64;
  alignas(64) Value of[most];
  const int count;

  explicit Lanes(int columns) : count(fixed ? fixed : most / columns * columns) {
    for (int k = 0; k < lanes(); ++k) of[k] = Fold::identity;
  }
  KERNEL_FN int lanes() const { return fixed ? fixed : count; }
  // Adds n numbers, the first of them to the first lane.
  KERNEL_FN void add(const typename Fold::Number* x, int64_t n) {
    alignas(64) Value now[most];  // may stay in registers
    for (int k = 0; k < lanes(); ++k) now[k] = of[k];
    int64_t i = 0;
    for (; i + lanes() <= n; i += lanes()) {
#pragma omp simd
      for (int k = 0; k < lanes(); ++k) now[k] = Fold::combine_lane(now[k], Fold::of(x[i + k]));
    }
    const int rest = static_cast<int>(n - i);
    for (int k = 0; k < rest; ++k) now[k] = Fold::combine_lane(now[k], Fold::of(x[i + k]));
    for (int k = 0; k < lanes(); ++k) of[k] = now[k];
  }
  void finish(Value* results, int columns) {
    if constexpr (fixed != 0) {
      for (int half = fixed / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) of[k] = Fold::combine(of[k], of[k + half]);
      results[0] = of[0];
    } else {
      for (int c = 0; c < columns; ++c) results[c] = of[c];
      for (int first = columns; first < count; first += columns)
        for (int c = 0; c < columns; ++c) results[c] = Fold::combine(results[c], of[first + c]);
    }
  }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
