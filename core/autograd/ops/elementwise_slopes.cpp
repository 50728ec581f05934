#include "core/autograd/ops/elementwise_slopes.h"

#include "core/autograd/op_policy.h"
#include "core/autograd/ops/tensor_formula.h"

namespace booster {

using kernels::BinaryOp;
using kernels::UnaryOp;

namespace formula {
namespace {

// Returns the formula's value in the dtype of g; a number has g's shape.
Tensor gradient(const Formula& value, const Tensor& g) {
  const Tensor d = value.tensor({g.dtype(), g.device()});
  return cast(value.is_number() ? expand(d, g.shape()) : d, g.dtype());
}

using T = Formula;

T unary_slope(UnaryOp op, const T& g, const T& x, const T& y) {
#define UNARY(name, value, derivative) \
  if (op == UnaryOp::name) return derivative;
#include "kernels/elementwise.def"
  fail("gradients: no slope for this function");
}

T binary_slope(BinaryOp op, bool first, const T& g, const T& a, const T& b, const T& y) {
#define BINARY(name, value, da, db) \
  if (op == BinaryOp::name) return first ? da : db;
#include "kernels/elementwise.def"
  fail("gradients: no slope for this function");
}

}  // namespace
}  // namespace formula

Tensor unary_slope(UnaryOp op, const Tensor& g, const Tensor& x, const Tensor& y) {
  using formula::Formula;
  return formula::gradient(formula::unary_slope(op, Formula(g), Formula(x), Formula(y)), g);
}

Tensor binary_slope(BinaryOp op, int which, const Tensor& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) {
  using formula::Formula;
  const Formula d =
      formula::binary_slope(op, which == 0, Formula(g), Formula(a), Formula(b), Formula(y));
  return formula::gradient(d, g);
}

}  // namespace booster
