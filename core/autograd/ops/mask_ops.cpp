// Masks: logic, tests of values, and what depends on where a mask is true. Composed of other
// functions; none of them is recorded.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/defined.h"

#include <cmath>

namespace booster {
namespace {

// Returns where x is not 0.
Tensor truth_of(const char* op, const Tensor& x) {
  check_defined(op, x);
  return x.dtype() == DType::boolean ? x : not_equal(x.detach(), 0.0);
}

}  // namespace

Tensor logical_not(const Tensor& x) {
  check_defined("logical_not", x);
  return equal(x.detach(), 0.0);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  const PolicyScope inside(nullptr);
  return mul(truth_of("logical_and", a), truth_of("logical_and", b));
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  const PolicyScope inside(nullptr);
  return maximum(truth_of("logical_or", a), truth_of("logical_or", b));
}

Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return not_equal(truth_of("logical_xor", a), truth_of("logical_xor", b));
}

Tensor count_nonzero(const Tensor& x, const std::vector<int64_t>& dims) {
  const PolicyScope inside(nullptr);
  return sum(truth_of("count_nonzero", x), dims);
}

Tensor any(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  const PolicyScope inside(nullptr);
  return greater(sum(truth_of("any", x), dims, keep_dims), 0.0);
}

Tensor all(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  const PolicyScope inside(nullptr);
  check_defined("all", x);
  return equal(sum(logical_not(x), dims, keep_dims), 0.0);
}

Tensor isinf(const Tensor& x) {
  check_defined("isinf", x);
  if (!is_floating(x.dtype())) return zeros(x.shape(), {DType::boolean, x.device()});
  const PolicyScope inside(nullptr);
  return equal(abs(x.detach()), INFINITY);
}

Tensor isclose(const Tensor& given_a, const Tensor& given_b, double rtol, double atol) {
  check_defined("isclose", given_a);
  check_defined("isclose", given_b);
  check(rtol >= 0 && atol >= 0, "isclose: a tolerance is negative; got rtol {} and atol {}", rtol,
        atol);
  const PolicyScope inside(nullptr);
  const Tensor a = untracked::cast(given_a, DType::f64), b = untracked::cast(given_b, DType::f64);
  const NoGradGuard no_grad;
  const Tensor distance = abs(a - b);
  const Tensor near = less_equal(distance, abs(b) * rtol + atol);
  return logical_or(logical_and(near, isfinite(distance)), equal(a, b));
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  return all(isclose(a, b, rtol, atol)).item() != 0;
}

Tensor isin(const Tensor& x, const Tensor& values) {
  check_defined("isin", x);
  check_defined("isin", values);
  return any(equal(untracked::unsqueeze(x.detach(), -1), flatten(values.detach())), {-1});
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_defined("masked_select", x);
  check_defined("masked_select", mask);
  check(mask.dtype() == DType::boolean, "masked_select: the mask must be bool; got {}",
        name_of(mask.dtype()));
  const PolicyScope inside(nullptr);
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  return flatten(expand(x, shape))[flatten(expand(mask, shape))];
}

Tensor nonzero(const Tensor& x) {
  const std::vector<uint8_t> truths = truth_of("nonzero", x).to_vector<uint8_t>();
  const Shape strides = x.shape().dense_strides();
  std::vector<int64_t> positions;
  int64_t count = 0;
  for (size_t i = 0; i < truths.size(); ++i) {
    if (!truths[i]) continue;
    ++count;
    for (int d = 0; d < x.ndim(); ++d)
      positions.push_back(static_cast<int64_t>(i) / strides[d] % x.shape()[d]);
  }
  return from_vector(positions, {count, x.ndim()}).to(x.device());
}

}  // namespace booster
