// The rows of elementwise.def as function objects on one element, in compute type T. The CPU's
// loops and CUDA's kernels both call them.
#pragma once

#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {

#define ELEMENT_FN(name, formula, ...)          \
  struct name {                                 \
    template <class T>                          \
    KERNEL_FN T operator()(__VA_ARGS__) const { \
      return T(formula);                        \
    }                                           \
  };

namespace unary_value {
#define UNARY(name, value, derivative) ELEMENT_FN(name, value, T x)
#include "kernels/elementwise.def"
}  // namespace unary_value

namespace unary_slope {
#define UNARY(name, value, derivative) \
  ELEMENT_FN(name, derivative, T g, [[maybe_unused]] T x, [[maybe_unused]] T y)
#include "kernels/elementwise.def"
}  // namespace unary_slope

namespace binary_value {
#define BINARY(name, value, da, db) ELEMENT_FN(name, value, T a, T b)
#include "kernels/elementwise.def"
}  // namespace binary_value

#define SLOPE_FN(name, formula)                                                               \
  ELEMENT_FN(name, formula, [[maybe_unused]] T g, [[maybe_unused]] T a, [[maybe_unused]] T b, \
             [[maybe_unused]] T y)
namespace binary_slope_a {
#define BINARY(name, value, da, db) SLOPE_FN(name, da)
#include "kernels/elementwise.def"
}  // namespace binary_slope_a

namespace binary_slope_b {
#define BINARY(name, value, da, db) SLOPE_FN(name, db)
#include "kernels/elementwise.def"
}  // namespace binary_slope_b
#undef SLOPE_FN

namespace comparison {
#define COMPARE(name, truth) ELEMENT_FN(name, truth, T a, T b)
#include "kernels/elementwise.def"
}  // namespace comparison

#undef ELEMENT_FN

// Powers with one exponent, with the roundings of torch's.
struct Cube {
  template <class T>
  KERNEL_FN T operator()(T x) const {
    return x * x * x;
  }
};
struct InverseSquare {
  template <class T>
  KERNEL_FN T operator()(T x) const {
    return T(1) / (x * x);
  }
};
// g times the slope of x^3.
struct CubeSlope {
  template <class T>
  KERNEL_FN T operator()(T g, T x) const {
    return g * (T(3) * (x * x));
  }
};
// max(low, min(x, high)); nan propagates.
struct Clamp {
  template <class T>
  KERNEL_FN T operator()(T x, T low, T high) const {
    return minimum_(maximum_(x, low), high);
  }
};

struct AddScaled {
  template <class T>
  KERNEL_FN T operator()(T a, T b, T factor) const {
    return a + b * factor;
  }
};

struct Same {
  template <class T>
  KERNEL_FN T operator()(T x) const {
    return x;
  }
};
struct Select {
  template <class T>
  KERNEL_FN T operator()(T condition, T a, T b) const {
    return condition != T(0) ? a : b;
  }
};

// f(operand(0), ..., operand(inputs - 1))
template <int inputs, class F, class Operand>
KERNEL_FN auto apply(F f, Operand&& operand) {
  if constexpr (inputs == 1) return f(operand(0));
  if constexpr (inputs == 2) return f(operand(0), operand(1));
  if constexpr (inputs == 3) return f(operand(0), operand(1), operand(2));
  if constexpr (inputs == 4) return f(operand(0), operand(1), operand(2), operand(3));
}

}  // namespace booster::kernels::BOOSTER_VARIANT
