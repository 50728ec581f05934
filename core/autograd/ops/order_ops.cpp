// Functions that depend on the order of elements along a dimension.
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/ops/vectors.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

// Returns the positions of x's first `count` elements along dimension d in sorted order.
Tensor order_of(const Tensor& x, int d, bool descending, int64_t count) {
  const Tensor rows = untracked::contiguous(untracked::transpose(x, d, -1));
  Shape shape = rows.shape();
  shape[shape.ndim() - 1] = count;
  const Tensor index = empty(shape, {DType::i64, x.device()});
  kernels::on(x.device()).sort_rows(index.view(), rows.view(), descending);
  const Tensor y = untracked::contiguous(untracked::transpose(index, d, -1));
  if (op_recorder) [[unlikely]]
    note_op("order", {x}, {y}, {{"dim", d}, {"descending", descending}, {"count", count}});
  return y;
}

std::pair<Tensor, Tensor> ordered(Op op, const Tensor& given, int64_t dim, bool descending,
                                  std::optional<int64_t> count) {
  Tensor x = given;
  const char* name = name_of(op);
  check_defined(name, x);
  if (x.ndim() == 0) {
    if (count == 0) count = 1;  // as in torch
    const auto [values, index] = ordered(op, as_vector(x), dim, descending, count);
    return {reshape(values, {}), reshape(index, {})};
  }
  apply_policy(op, {&x});
  const PolicyScope inside(nullptr);
  const int d = normal_dim(name, dim, x.ndim());
  const int64_t size = x.shape()[d];
  check(!count || (*count >= 0 && *count <= size), "{}: k is out of range; got {}, want 0 to {}",
        name, count.value_or(0), size);
  const Tensor index = order_of(x, d, descending, count.value_or(size));
  return {gather(x, d, index), index};
}

// Returns the prefix sums along dimension d, or suffix sums if `reverse`.
Tensor running_sum(const Tensor& x, int d, bool reverse, DType dtype) {
  const Tensor y = empty(x.shape(), {dtype, x.device()});
  kernels::on(x.device()).cumsum(y.view(), untracked::contiguous(x).view(), d, reverse);
  if (op_recorder) [[unlikely]]
    note_op("cumsum", {x}, {y}, {{"dim", d}, {"reverse", reverse}});
  return record(y, "cumsum", {x},
                twice([d, reverse, from = x.dtype()](const Tensor& g, Gradients& grads) {
                  grads[0] = cast(running_sum(g, d, !reverse, g.dtype()), from);
                }));
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending) {
  return ordered(Op::sort, x, dim, descending, {});
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  check_defined("argsort", x);
  const int d = normal_dim_or_only("argsort", dim, x.ndim());
  if (x.ndim() == 0) return zeros({}, {DType::i64, x.device()});
  return order_of(x, d, descending, x.shape()[d]);
}

std::pair<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  return ordered(Op::topk, x, dim, largest, k);
}

Tensor cumsum(const Tensor& given, int64_t dim) {
  Tensor x = given;
  check(x.defined(), "cumsum: argument is undefined");
  if (x.ndim() == 0) return reshape(cumsum(as_vector(x), dim), {});
  const int d = normal_dim("cumsum", dim, x.ndim());
  const bool wide = wants_f32_result(Op::cumsum, x);
  apply_policy(Op::cumsum, {&x});
  const DType floating = wide ? DType::f32 : x.dtype();
  return running_sum(x, d, false, is_floating(x.dtype()) ? floating : DType::i64);
}

}  // namespace booster
