// Evaluates the derivatives of kernels/elementwise.def on tensors: in a row's text, T is `Formula`.
// The tape records the result, so it can be differentiated again.
//
// A formula may use + - * /, comparisons, `choose`, `op_(x)` for each op of the table, and the
// slopes below. Any other function of kernels/numbers/math.h that a derivative calls needs a form
// in this file.
#pragma once

#include "core/autograd/functions.h"

#include <numbers>
#include <utility>
#include <variant>

namespace booster::formula {

// A tensor, or a number that adapts to the tensors around it. A tensor may be undefined if the
// formula does not read it.
class Formula {
 public:
  explicit Formula(double number) : value_(number) {}
  explicit Formula(Tensor tensor) : value_(std::move(tensor)) {}

  bool is_number() const { return value_.index() == 0; }
  // Returns the tensor; a number becomes one without dimensions, of `like`'s dtype and device.
  Tensor tensor(const TensorOptions& like = {.dtype = DType::f64}) const {
    return is_number() ? scalar(std::get<double>(value_), like) : std::get<Tensor>(value_);
  }

  // Returns f of both values, each of which is a Tensor or a double.
  template <class F>
  friend Formula combined(const Formula& a, const Formula& b, F f) {
    return std::visit([&](const auto& x, const auto& y) { return Formula(f(x, y)); }, a.value_,
                      b.value_);
  }

 private:
  std::variant<double, Tensor> value_;
};

inline Formula operator-(const Formula& x) {
  return combined(x, x, [](const auto& value, const auto&) { return -value; });
}
inline Formula operator+(const Formula& a, const Formula& b) {
  return combined(a, b, [](const auto& x, const auto& y) { return x + y; });
}
inline Formula operator-(const Formula& a, const Formula& b) {
  return combined(a, b, [](const auto& x, const auto& y) { return x - y; });
}
inline Formula operator*(const Formula& a, const Formula& b) {
  return combined(a, b, [](const auto& x, const auto& y) { return x * y; });
}
inline Formula operator/(const Formula& a, const Formula& b) {
  return combined(a, b, [](const auto& x, const auto& y) { return x / y; });
}

// Returns both as tensors; a number takes dtype and device of the other one.
inline std::pair<Tensor, Tensor> tensors(const Formula& a, const Formula& b) {
  const auto options_of = [](const Formula& x) {
    if (x.is_number()) return TensorOptions{.dtype = DType::f64};
    const Tensor tensor = x.tensor();
    return TensorOptions{tensor.dtype(), tensor.device()};
  };
  return {a.tensor(options_of(b)), b.tensor(options_of(a))};
}

// The elements where a comparison holds: a bool tensor.
struct Truth {
  Tensor holds;
};
#define COMPARED(symbol, function)                                   \
  inline Truth operator symbol(const Formula& a, const Formula& b) { \
    const auto [x, y] = tensors(a, b);                               \
    return {function(x, y)};                                         \
  }
COMPARED(==, equal)
COMPARED(!=, not_equal)
COMPARED(<, less)
COMPARED(<=, less_equal)
COMPARED(>, greater)
COMPARED(>=, greater_equal)
#undef COMPARED

// Returns a where the condition holds, b elsewhere.
inline Formula choose(const Truth& condition, const Formula& a, const Formula& b) {
  const auto [x, y] = tensors(a, b);
  return Formula(where(condition.holds, x, y));
}

// Define exp_(x) and so on, with the names of the kernels' functions.
#define UNARY(name, ...) \
  inline Formula name##_(const Formula& x) { return Formula(name(x.tensor())); }
#define BINARY(name, ...)                                      \
  inline Formula name##_(const Formula& a, const Formula& b) { \
    const auto [x, y] = tensors(a, b);                         \
    return Formula(name(x, y));                                \
  }
#include "kernels/elementwise.def"

// The slopes of kernels/numbers/math.h, written as ops that have derivatives. (The originals favour
// speed and small rounding errors in f32.)

inline Formula silu_slope(const Formula& x) {
  using T = Formula;
  const T s = sigmoid_(x);
  return s * (T(1) + x * (T(1) - s));
}

inline Formula gelu_slope(const Formula& x) {
  using T = Formula;
  const double root_half = 1 / std::numbers::sqrt2;
  const double root_two_pi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;
  const T cdf = (T(1) + erf_(x * T(root_half))) * T(0.5);
  return cdf + x * exp_(square_(x) * T(-0.5)) / T(root_two_pi);
}

inline Formula gelu_tanh_slope(const Formula& x) {
  using T = Formula;
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, c = 0.044715;
  const T t = tanh_((x + x * square_(x) * T(c)) * T(k));
  const T slope_of_tanh = (T(1) - square_(t)) * (T(1) + square_(x) * T(3 * c)) * T(0.5 * k);
  return (T(1) + t) * T(0.5) + x * slope_of_tanh;
}

inline Formula mish_slope(const Formula& x) {
  using T = Formula;
  const T t = tanh_(softplus_(x));
  return t + x * (T(1) - square_(t)) * sigmoid_(x);
}

inline Formula larger_slope(const Formula& g, const Formula& a, const Formula& b) {
  using T = Formula;
  return choose(a < b, T(0), choose(a == b, g * T(0.5), g));
}

// Returns 0 where the exponent is 0: multiplying the infinite 0^-1 by 0 would give nan.
inline Formula pow_base_slope(const Formula& g, const Formula& a, const Formula& b) {
  using T = Formula;
  return choose(b == T(0), T(0), g * (b * pow_(a, b - T(1))));
}

inline Formula pow_exponent_slope(const Formula& g, const Formula& a, const Formula& b,
                                  const Formula& y) {
  using T = Formula;
  const Truth is_flat{mul((a == T(0)).holds, (b >= T(0)).holds)};
  return choose(is_flat, T(0), g * (y * log_(a)));
}

}  // namespace booster::formula
