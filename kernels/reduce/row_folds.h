// Folds of dense runs of numbers in vectors, for results whose numbers are neighbours in memory.
// For the CPU.
#pragma once

#include "kernels/numbers/vectors.h"
#include "kernels/reduce/folds.h"
#include "kernels/walks/transpose.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Adds numbers of type C, or their squares, in f64, in 32 partial sums that are used in turn. The
// order of additions does not depend on the CPU variant.
template <class C, bool squares>
class RunSum {
 public:
  void add(const C* x, int64_t n) {
    Wide sums[vectors];  // may stay in registers
    for (int k = 0; k < vectors; ++k) sums[k] = sums_[k];
    int64_t i = 0;
    for (; i + step <= n; i += step)
      for (int k = 0; k < vectors; ++k) sums[k] += term(x + i + k * width);
    if (i < n) {
      C rest[step] = {};
      __builtin_memcpy(rest, x + i, size_t(n - i) * sizeof(C));
      for (int k = 0; k < vectors; ++k) sums[k] += term(rest + k * width);
    }
    for (int k = 0; k < vectors; ++k) sums_[k] = sums[k];
  }
  double finish() const {
    Wide sums[vectors];
    for (int k = 0; k < vectors; ++k) sums[k] = sums_[k];
    for (int half = vectors / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
    return folded<width / 2>(sums[0]);
  }

 private:
  using Wide = Vector<double>;
  static constexpr int width = lanes<double>, vectors = 32 / width, step = 32;
  typedef C Numbers __attribute__((vector_size(width * sizeof(C)), aligned(sizeof(C)), may_alias));

  KERNEL_FN static Wide wide(const C* x) {
#ifdef __AVX512F__  // the compiler's own conversion works in halves; see load_halves
    if constexpr (__is_same(C, float))
      return (Wide)_mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(x));
#endif
    return __builtin_convertvector(*reinterpret_cast<const Numbers*>(x), Wide);
  }
  KERNEL_FN static Wide term(const C* x) {
    const Wide number = wide(x);
    return squares ? number * number : number;
  }
  template <int by>
  KERNEL_FN static double folded(Wide x) {
    if constexpr (by == 0)
      return x[0];
    else
      return folded<by / 2>(x + LaneOrders<width>::template rotate<by>(x));
  }

  Wide sums_[vectors] = {};
};

// The extreme of numbers in vectors. A comparison with nan is false, so nans are noted separately.
template <class C, bool largest>
class RunExtreme {
 public:
  RunExtreme() {
    for (V& one : best_) one = V{} + Fold::identity;
  }
  void add(const C* x, int64_t n) {
    V best[at_once];  // may stay in registers
    Mask is_nan[at_once];
    for (int k = 0; k < at_once; ++k) best[k] = best_[k], is_nan[k] = is_nan_[k];
    const auto add_vector = [&](int k, V now) {
      best[k] = further(best[k], now);
      is_nan[k] |= now != now;
    };
    int64_t i = 0;
    for (; i + at_once * width <= n; i += at_once * width)
      for (int k = 0; k < at_once; ++k) add_vector(k, load_vector(x + i + k * width));
    for (; i + width <= n; i += width) add_vector(0, load_vector(x + i));
    for (int k = 0; k < at_once; ++k) best_[k] = best[k], is_nan_[k] = is_nan[k];
    for (; i < n; ++i) rest_ = Fold::combine(rest_, x[i]);
  }
  C finish() const {
    const V best = further(further(best_[0], best_[1]), further(best_[2], best_[3]));
    const Mask is_nan = is_nan_[0] | is_nan_[1] | is_nan_[2] | is_nan_[3];
    const C extreme = Fold::combine(furthest<width / 2>(best), rest_);
    return any<width / 2>(is_nan) ? C(__builtin_nan("")) : extreme;
  }

 private:
  using Fold = Extreme<C, largest>;
  using V = Vector<C>;
  using Mask = decltype(V{} != V{});
  static constexpr int at_once = 4, width = lanes<C>;

  KERNEL_FN static V further(V a, V b) { return (largest ? b > a : b < a) ? b : a; }
  template <int by>
  KERNEL_FN static C furthest(V x) {
    if constexpr (by == 0)
      return x[0];
    else
      return furthest<by / 2>(further(x, LaneOrders<width>::template rotate<by>(x)));
  }
  template <int by>
  KERNEL_FN static bool any(Mask x) {
    if constexpr (by == 0)
      return x[0] != 0;
    else
      return any<by / 2>(x | LaneOrders<width>::template rotate<by>(x));
  }

  V best_[at_once];
  Mask is_nan_[at_once] = {};
  C rest_ = Fold::identity;
};

// The class for a fold, without one for integers and counts.
template <class Fold>
struct RunFoldOf {
  static constexpr bool is_known = false;
};
template <class C, bool squares>
struct FloatingRunSum {
  static constexpr bool is_known = true;
  using type = RunSum<C, squares>;
};
template <>
struct RunFoldOf<Sum<float>> : FloatingRunSum<float, false> {};
template <>
struct RunFoldOf<Sum<double>> : FloatingRunSum<double, false> {};
template <>
struct RunFoldOf<Squares<float>> : FloatingRunSum<float, true> {};
template <>
struct RunFoldOf<Squares<double>> : FloatingRunSum<double, true> {};
template <class C, bool largest>
struct FloatingRunExtreme {
  static constexpr bool is_known = true;
  using type = RunExtreme<C, largest>;
};
template <bool largest>
struct RunFoldOf<Extreme<float, largest>> : FloatingRunExtreme<float, largest> {};
template <bool largest>
struct RunFoldOf<Extreme<double, largest>> : FloatingRunExtreme<double, largest> {};

}  // namespace booster::kernels::BOOSTER_VARIANT
