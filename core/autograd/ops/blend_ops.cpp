// Elementwise functions of several tensors or numbers, composed of the table's.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/defined.h"

#include <cmath>
#include <limits>

namespace booster {
namespace {

void check_all_defined(const char* op, std::initializer_list<Tensor> tensors) {
  for (const Tensor& x : tensors) check_defined(op, x);
}

Tensor number_like(const Tensor& x, double value) { return scalar(value, {x.dtype(), x.device()}); }

double largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 0x1.fep127;
  return dtype == DType::f32 ? std::numeric_limits<float>::max()
                             : std::numeric_limits<double>::max();
}

}  // namespace

// As in torch, each half counts from its own end, so that weights 0 and 1 give a and b exactly.
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  check_all_defined("lerp", {a, b});
  const PolicyScope inside(nullptr);
  return std::abs(weight) < 0.5 ? a + (b - a) * weight : b - (b - a) * (1 - weight);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  check_all_defined("lerp", {a, b, weight});
  const PolicyScope inside(nullptr);
  const Tensor step = b - a;
  return where(less(abs(weight.detach()), 0.5), a + step * weight, b - step * (1.0 - weight));
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  check_all_defined("addcmul", {x, a, b});
  const PolicyScope inside(nullptr);
  return factor == 1 ? x + a * b : x + a * b * factor;
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  check_all_defined("addcdiv", {x, a, b});
  const PolicyScope inside(nullptr);
  return factor == 1 ? x + a / b : x + a / b * factor;
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  check_all_defined("hypot", {a, b});
  const PolicyScope inside(nullptr);
  return sqrt(square(a) + square(b));
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  check_all_defined("floor_divide", {a, b});
  const PolicyScope inside(nullptr);
  const DType dtype = promoted(a, b);
  if (is_floating(dtype)) return floor(a / b);
  const Tensor wide = untracked::cast(a, DType::f64) / untracked::cast(b, DType::f64);
  return untracked::cast(floor(wide), dtype == DType::boolean ? DType::i64 : dtype);
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  check_all_defined("fmod", {a, b});
  const PolicyScope inside(nullptr);
  if (!is_floating(promoted(a, b))) return sign(a) * remainder(abs(a), abs(b));
  return a - b * trunc((a / b).detach());
}

Tensor xlogy(const Tensor& a, const Tensor& b) {
  check_all_defined("xlogy", {a, b});
  const PolicyScope inside(nullptr);
  const Tensor is_zero = logical_and(equal(a, 0.0), equal(b, b));
  const Tensor safe = where(is_zero, number_like(b, 1), b);
  return where(is_zero, number_like(safe, 0), a * log(safe));
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  check_defined("logit", x);
  check(!eps || (*eps >= 0 && *eps <= 0.5), "logit: eps is out of range; got {}, want 0 to 0.5",
        eps.value_or(0));
  const PolicyScope inside(nullptr);
  const Tensor share = eps ? clamp(x, *eps, 1 - *eps) : x;
  return log(share / (1.0 - share));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> high,
                  std::optional<double> low) {
  check_defined("nan_to_num", x);
  if (!is_floating(x.dtype())) return x;
  const PolicyScope inside(nullptr);
  const double largest = largest_of(x.dtype());
  Tensor y = where(isnan(x), number_like(x, nan), x);
  y = where(equal(x, INFINITY), number_like(x, high.value_or(largest)), y);
  return where(equal(x, -INFINITY), number_like(x, low.value_or(-largest)), y);
}

}  // namespace booster
