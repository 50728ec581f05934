// Reductions over any dimensions.
#include "core/autograd/functions.h"
#include "core/autograd/memory_order.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>

namespace booster {

using kernels::ReduceOp;

namespace {

// The shape with size 1 in the reduced dimensions (all, if none are named), and without them.
struct Reduced {
  Shape kept;
  Shape squeezed;
  int64_t count = 1;
};

Reduced reduced_shapes(const char* op, const Tensor& x, const std::vector<int64_t>& dims) {
  check_defined(op, x);
  unsigned mask = dims.empty() ? ~0u : 0u;
  for (int64_t dim : dims) {
    const unsigned bit = 1u << normal_dim_or_only(op, dim, x.ndim());
    check(!(mask & bit), "{}: dimension {} occurs twice", op, dim);
    mask |= bit;
  }
  Reduced reduced{x.shape(), {}, 1};
  for (int i = 0; i < x.ndim(); ++i) {
    if (mask >> i & 1) {
      reduced.count *= x.shape()[i];
      reduced.kept[i] = 1;
    } else {
      reduced.squeezed.push_back(x.shape()[i]);
    }
  }
  return reduced;
}

Tensor reduce_to(ReduceOp op, const Tensor& x, const Shape& kept, DType dtype) {
  Tensor y = empty(kept, {dtype, x.device()});
  kernels::on(x.device()).reduce(op, y.view(), x.view());
  return y;
}

DType sum_dtype(Op op, const Tensor& x) {
  if (!is_floating(x.dtype())) return DType::i64;
  return wants_f32_result(op, x) ? DType::f32 : x.dtype();
}

// Reports a reduction to the thread's recorder, if there is one.
void note_reduction(const char* name, const Tensor& x, const Tensor& y,
                    const std::vector<int64_t>& dims, bool keep_dims, bool unbiased = false) {
  if (op_recorder) [[unlikely]]
    note_op(name, {x}, {y}, {{"dims", dims}, {"keep_dims", keep_dims}, {"unbiased", unbiased}});
}

// Returns g in x's shape and dtype, as a broadcast view where no factor changes it.
Tensor spread(const Tensor& g, const Shape& kept, const Shape& shape, DType dtype) {
  return expand(cast(reshape(g, kept), dtype), shape);
}

// The elements equal to an extreme, which get equal shares of its gradient. If it is nan, either no
// element is equal and each gets 0 / 0 of the gradient, as torch's amax, or the nan elements are,
// as torch's max.
enum class NanShares { none, nan };

Tensor extreme(ReduceOp kind, Op op, const Tensor& given, const std::vector<int64_t>& dims,
               bool keep_dims, NanShares shares = NanShares::none) {
  Tensor x = given;
  const char* name = name_of(op);
  const Reduced to = reduced_shapes(name, x, dims);
  check(to.count > 0, "{}: no elements to reduce; got shape {}", name, x.shape());
  apply_policy(op, {&x});
  const Tensor y = reduce_to(kind, x, to.kept, x.dtype());
  const Tensor shaped = untracked::reshape(y, keep_dims ? to.kept : to.squeezed);
  note_reduction(name, x, shaped, dims, keep_dims);
  return record(
      shaped, name, {x},
      [x = Saved(x), y = Saved(y), kept = to.kept, shares](const Tensor& g, Gradients& d) {
        const Tensor values = x.get(), top = y.get();
        Tensor is_hit = equal(values, top);
        if (shares == NanShares::nan) is_hit = where(isnan(top), isnan(values), is_hit);
        const Tensor hit = untracked::cast(is_hit, g.dtype());
        const Tensor ties = untracked::sum_to(hit, kept);
        d[0] = hit * div(untracked::reshape(g, kept), ties);
      });
}

}  // namespace

Tensor sum(const Tensor& given, const std::vector<int64_t>& dims, bool keep_dims) {
  Tensor x = given;
  const Reduced to = reduced_shapes("sum", x, dims);
  apply_policy(Op::sum, {&x});
  const Tensor all = reduce_to(ReduceOp::sum, x, to.kept, sum_dtype(Op::sum, x));
  const Tensor y = untracked::reshape(all, keep_dims ? to.kept : to.squeezed);
  note_reduction("sum", x, y, dims, keep_dims);
  return record(
      y, "sum", {x},
      twice([kept = to.kept, shape = x.shape(), dtype = x.dtype()](const Tensor& g, Gradients& d) {
        d[0] = spread(g, kept, shape, dtype);
      }));
}

Tensor mean(const Tensor& given, const std::vector<int64_t>& dims, bool keep_dims) {
  Tensor x = given;
  const Reduced to = reduced_shapes("mean", x, dims);
  check(is_floating(x.dtype()), "mean: want a floating tensor; got {}", name_of(x.dtype()));
  apply_policy(Op::mean, {&x});
  const Tensor all = reduce_to(ReduceOp::mean, x, to.kept, x.dtype());
  const Tensor y = untracked::reshape(all, keep_dims ? to.kept : to.squeezed);
  note_reduction("mean", x, y, dims, keep_dims);
  return record(
      y, "mean", {x},
      twice([kept = to.kept, shape = x.shape(), count = to.count](const Tensor& g, Gradients& d) {
        d[0] = spread(div(g, static_cast<double>(count)), kept, shape, g.dtype());
      }));
}

namespace {

// Returns the dtype for means of squares. Rounding every step to 16 bits would lose most of a small
// spread.
DType wide_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Subtracts the first number of each reduced run from x. That changes no measure of spread, and
// avoids large rounding errors in the mean of close numbers far from zero.
Tensor from_first(const Tensor& x, const Shape& kept) {
  if (x.numel() == 0) return x;
  Tensor first = x.detach();
  for (int i = 0; i < x.ndim(); ++i)
    if (kept[i] == 1) first = narrow(first, i, 0, 1);
  return x - first;
}

// Returns measure(deviations from the mean, divisor of their squares' sum) over dimensions,
// computed in the wide dtype and rounded once.
template <class F>
Tensor spread_measure(const char* name, const Tensor& given, const std::vector<int64_t>& dims,
                      bool unbiased, bool keep_dims, F measure) {
  Tensor x = given;
  const Reduced to = reduced_shapes(name, x, dims);
  check(is_floating(x.dtype()), "{}: want a floating tensor; got {}", name, name_of(x.dtype()));
  apply_policy(Op::var, {&x});
  const PolicyScope inside(nullptr);
  const Tensor wide = from_first(cast(x, wide_dtype(x)), to.kept);
  const double divisor = static_cast<double>(std::max<int64_t>(to.count - (unbiased ? 1 : 0), 0));
  const Tensor measured = measure(wide - mean(wide, dims, true), divisor);
  const Tensor y = reshape(cast(measured, x.dtype()), keep_dims ? to.kept : to.squeezed);
  note_reduction(name, x, y, dims, keep_dims, unbiased);
  return y;
}

}  // namespace

Tensor var(const Tensor& x, const std::vector<int64_t>& dims, bool unbiased, bool keep_dims) {
  return spread_measure("var", x, dims, unbiased, keep_dims,
                        [&](const Tensor& deviation, double divisor) {
                          return sum(square(deviation), dims, true) / divisor;
                        });
}

Tensor sum(const Tensor& x) { return sum(x, {}); }
Tensor mean(const Tensor& x) { return mean(x, {}); }

Tensor amax(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  return extreme(ReduceOp::amax, Op::amax, x, dims, keep_dims);
}
Tensor amin(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  return extreme(ReduceOp::amin, Op::amin, x, dims, keep_dims);
}

namespace {

Tensor index_of_extreme(const char* name, const Tensor& x, int64_t dim, bool keep_dim,
                        bool smallest) {
  check_defined(name, x);
  const int d = normal_dim_or_only(name, dim, x.ndim());
  if (x.ndim() == 0) return zeros({}, {DType::i64, x.device()});
  check(x.shape()[d] > 0, "{}: no elements to reduce; got shape {}", name, x.shape());
  const Reduced to = reduced_shapes(name, x, {dim});
  Tensor index = empty(to.kept, {DType::i64, x.device()});
  kernels::on(x.device()).argmax(index.view(), x.view(), d, smallest);
  const Tensor y = untracked::reshape(index, keep_dim ? to.kept : to.squeezed);
  note_reduction(name, x, y, {d}, keep_dim);
  return y;
}

// Returns an index without its reduced dimension.
Tensor squeezed(const Tensor& index, int64_t dim) {
  const Tensor y = untracked::squeeze(index, dim);
  if (op_recorder) [[unlikely]]
    note_op("squeeze", {index}, {y});
  return y;
}

}  // namespace

Tensor argmax(const Tensor& x, int64_t dim, bool keep_dim) {
  return index_of_extreme("argmax", x, dim, keep_dim, false);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keep_dim) {
  return index_of_extreme("argmin", x, dim, keep_dim, true);
}

std::pair<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keep_dim) {
  const Tensor index = argmax(x, dim, true);
  const Tensor values = gather(x, dim, index);
  if (keep_dim) return {values, index};
  return {squeeze(values, dim), squeezed(index, dim)};
}

std::pair<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keep_dim) {
  const Tensor index = argmin(x, dim, true);
  const Tensor values = gather(x, dim, index);
  if (keep_dim) return {values, index};
  return {squeeze(values, dim), squeezed(index, dim)};
}

Tensor logsumexp(const Tensor& given, const std::vector<int64_t>& dims, bool keep_dims) {
  Tensor x = given;
  const Reduced to = reduced_shapes("logsumexp", x, dims);
  apply_policy(Op::logsumexp, {&x});
  const PolicyScope inside(nullptr);
  const MemoryOrder ordered(x);
  const std::vector<int64_t> places = ordered.places(dims);
  const Tensor wide = cast(ordered.x(), wide_dtype(x));
  const TensorOptions options{wide.dtype(), wide.device()};
  // The logarithm of an empty sum is -infinity, which needs no shift.
  const Tensor top = to.count > 0 ? amax(wide.detach(), places, true) : scalar(0, options);
  const Tensor finite = where(less(abs(top), INFINITY), top, scalar(0, options));
  const Tensor sums = log(sum(exp(wide - finite), places, true)) + finite;
  const Tensor y = cast(ordered.restored(sums), is_floating(x.dtype()) ? x.dtype() : wide.dtype());
  return keep_dims ? y : reshape(y, to.squeezed);
}
Tensor logsumexp(const Tensor& x, int64_t dim, bool keep_dim) {
  return logsumexp(x, std::vector<int64_t>{dim}, keep_dim);
}

Tensor max(const Tensor& x) {
  return extreme(ReduceOp::amax, Op::amax, x, {}, false, NanShares::nan);
}
Tensor min(const Tensor& x) {
  return extreme(ReduceOp::amin, Op::amin, x, {}, false, NanShares::nan);
}
Tensor argmax(const Tensor& x) { return argmax(flatten(x.detach()), 0); }
Tensor argmin(const Tensor& x) { return argmin(flatten(x.detach()), 0); }

namespace {

// Returns y^(1 / p) of a sum y >= 0. The gradient at y = 0 is 0, although the slope is infinite.
Tensor root(const Tensor& y, double p) {
  const Tensor is_zero = equal(y, 0.0);
  const Tensor safe = where(is_zero, scalar(1, {y.dtype(), y.device()}), y);
  const Tensor rooted = p == 2 ? sqrt(safe) : pow(safe, 1 / p);
  return where(is_zero, scalar(0, {y.dtype(), y.device()}), rooted);
}

// Returns the sums of squares in the dtype of statistics, in one pass. Recorders of ops get the sum
// of a square.
Tensor sum_of_squares(const Tensor& x, const std::vector<int64_t>& dims) {
  if (op_recorder) return sum(square(cast(x, wide_dtype(x))), dims, true);
  const Reduced to = reduced_shapes("norm", x, dims);
  const Tensor y = reduce_to(ReduceOp::squares, x, to.kept, wide_dtype(x));
  return record(y, "sum_of_squares", {x},
                twice([saved = SavedInput(x), dtype = x.dtype()](const Tensor& g, Gradients& d) {
                  d[0] = cast(mul(mul(g, 2.0), saved.get()), dtype);
                }));
}

Tensor norm_of(const Tensor& x, const std::vector<int64_t>& dims, double p) {
  const Tensor size = abs(x);
  if (std::isinf(p)) return p > 0 ? amax(size, dims, true) : amin(size, dims, true);
  if (p == 0)
    return sum(where(equal(x, 0.0), size, scalar(1, {x.dtype(), x.device()})), dims, true);
  if (p == 1) return sum(size, dims, true);
  // The slope of |x| at a nan is 0, which would hide it in the gradient.
  const Tensor powers = pow(p > 1 ? x * sign(x.detach()) : size, p);
  return root(sum(powers, dims, true), p);
}

}  // namespace

namespace {

// Returns the largest |x| over dimensions, off the tape; 1 if it cannot be a divisor. Callers
// divide x by it before summing squares, which in f32 overflow above 1e19 and vanish below 1e-23.
Tensor size_of_largest(const Tensor& x, const std::vector<int64_t>& dims) {
  const Tensor one = scalar(1, {x.dtype(), x.device()});
  if (x.numel() == 0) return one;
  const Tensor largest = amax(abs(x.detach()), dims, true);
  const Tensor is_divisor = mul(greater(largest, 0.0), less(largest, INFINITY));
  return where(is_divisor, largest, one);
}

}  // namespace

Tensor stddev(const Tensor& x, const std::vector<int64_t>& dims, bool unbiased, bool keep_dims) {
  return spread_measure("stddev", x, dims, unbiased, keep_dims,
                        [&](const Tensor& deviation, double divisor) {
                          const Tensor unit = size_of_largest(deviation, dims);
                          const Tensor squares = square(deviation / unit);
                          return root(sum(squares, dims, true) / divisor, 2) * unit;
                        });
}

Tensor norm(const Tensor& given, const std::vector<int64_t>& dims, bool keep_dims, double p) {
  Tensor x = given;
  const Reduced to = reduced_shapes("norm", x, dims);
  check(is_floating(x.dtype()), "norm: want a floating tensor; got {}", name_of(x.dtype()));
  apply_policy(Op::norm, {&x});
  const DType result = wants_f32_result(Op::norm, x) ? DType::f32 : x.dtype();
  const PolicyScope inside(nullptr);
  const MemoryOrder ordered(x);
  const std::vector<int64_t> places = ordered.places(dims);
  const Tensor sizes = p == 2 ? root(sum_of_squares(ordered.x(), places), 2)
                              : norm_of(cast(ordered.x(), wide_dtype(x)), places, p);
  const Tensor y = cast(ordered.restored(sizes), result);
  return keep_dims ? y : reshape(y, to.squeezed);
}
Tensor norm(const Tensor& x) { return norm(x, {}); }

Tensor isnan(const Tensor& x) { return not_equal(x, x); }
Tensor isfinite(const Tensor& x) {
  const PolicyScope inside(nullptr);
  if (!is_floating(x.dtype())) return ones(x.shape(), {DType::boolean, x.device()});
  return less(abs(x.detach()), INFINITY);
}

}  // namespace booster
