#include "core/autograd/ops/elementwise_slopes.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"

#include <numbers>

namespace booster {

using kernels::BinaryOp;
using kernels::UnaryOp;

namespace {

Tensor zero_like(const Tensor& g) { return zeros({}, {g.dtype(), g.device()}); }

Tensor gelu_slope(const Tensor& x) {
  const double root_half = 1 / std::numbers::sqrt2;
  const double root_two_pi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;
  return (1 + erf(x * root_half)) * 0.5 + x * exp(square(x) * -0.5) / root_two_pi;
}

Tensor gelu_tanh_slope(const Tensor& x) {
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, c = 0.044715;
  const Tensor t = tanh((x + x * square(x) * c) * k);
  return (1 + t) * 0.5 + x * (1 - square(t)) * (1 + square(x) * (3 * c)) * (0.5 * k);
}

Tensor silu_slope(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

// 0 where the exponent is 0: multiplying the infinite 0^-1 by 0 would give nan.
Tensor pow_base_slope(const Tensor& g, const Tensor& a, const Tensor& b) {
  return where(equal(b, 0), zero_like(g), g * (b * pow(a, b - 1)));
}

Tensor pow_exponent_slope(const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Tensor is_flat = mul(equal(a, 0), greater_equal(b, 0));
  return where(is_flat, zero_like(g), g * (y * log(a)));
}

// As in the kernels (kernels/numbers/math.h).
Tensor larger_slope(const Tensor& g, const Tensor& a, const Tensor& b) {
  return where(less(a, b), zero_like(g), where(equal(a, b), g * 0.5, g));
}

}  // namespace

Tensor unary_slope(UnaryOp op, const Tensor& g, const Tensor& x, const Tensor& y) {
  switch (op) {
    case UnaryOp::neg: return -g;
    case UnaryOp::abs: return g * sign(x);
    case UnaryOp::square: return g * x * 2;
    case UnaryOp::exp: return g * y;
    case UnaryOp::expm1: return g * (y + 1);
    case UnaryOp::log: return g / x;
    case UnaryOp::sqrt: return g / (y * 2);
    case UnaryOp::rsqrt: return g * y * square(y) * -0.5;
    case UnaryOp::reciprocal: return -g * square(y);
    case UnaryOp::sin: return g * cos(x);
    case UnaryOp::cos: return -g * sin(x);
    case UnaryOp::erf: return g * exp(-square(x)) * (2 * std::numbers::inv_sqrtpi);
    case UnaryOp::tanh: return g * (1 - square(y));
    case UnaryOp::sigmoid: return g * y * (1 - y);
    case UnaryOp::softplus: return g * sigmoid(x);
    case UnaryOp::relu: return where(less_equal(y, 0), zero_like(g), g);
    case UnaryOp::silu: return g * silu_slope(x);
    case UnaryOp::gelu: return g * gelu_slope(x);
    case UnaryOp::gelu_tanh: return g * gelu_tanh_slope(x);
    case UnaryOp::sign:
    case UnaryOp::floor:
    case UnaryOp::round: return zeros_like(g);
  }
  fail("gradients: no slope for this function");
}

Tensor binary_slope(BinaryOp op, int which, const Tensor& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) {
  const bool first = which == 0;
  switch (op) {
    case BinaryOp::add: return g;
    case BinaryOp::sub: return first ? g : -g;
    case BinaryOp::mul: return g * (first ? b : a);
    case BinaryOp::div: return first ? g / b : -(g * y) / b;
    case BinaryOp::pow: return first ? pow_base_slope(g, a, b) : pow_exponent_slope(g, a, b, y);
    case BinaryOp::maximum: return first ? larger_slope(g, a, b) : larger_slope(g, b, a);
    case BinaryOp::minimum: return first ? larger_slope(g, b, a) : larger_slope(g, a, b);
  }
  fail("gradients: no slope for this function");
}

}  // namespace booster
