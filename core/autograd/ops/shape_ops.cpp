// Functions that rearrange elements without changing them.
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/tape.h"
#include "core/tensor/channels_last.h"
#include "kernels/catalogue.h"

namespace booster {

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_defined("reshape", x);
  return record(
      untracked::reshape(x, shape), "reshape", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = reshape(g, from); }));
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  check_defined("flatten", x);
  const int first = normal_dim_or_only("flatten", start_dim, x.ndim());
  const int last = normal_dim_or_only("flatten", end_dim, x.ndim());
  check(first <= last, "flatten: start after end; got {} and {}", start_dim, end_dim);
  if (x.ndim() == 0) return reshape(x, {1});
  Shape shape;
  int64_t merged = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i >= first && i <= last) merged *= x.shape()[i];
    if (i < first || i > last) shape.push_back(x.shape()[i]);
    if (i == last) shape.push_back(merged);
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  check_defined("permute", x);
  const Tensor y = untracked::permute(x, order);
  if (op_recorder) [[unlikely]]
    note_op("permute", {x}, {y}, {{"order", std::vector<int64_t>(order.begin(), order.end())}});
  return record(y, "permute", {x}, twice([order, n = x.ndim()](const Tensor& g, Gradients& d) {
                  std::vector<int> back(order.size());
                  for (int i = 0; i < n; ++i) back[normal_dim("permute", order[i], n)] = i;
                  d[0] = permute(g, back);
                }));
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  check_defined("transpose", x);
  const Tensor y = untracked::transpose(x, dim0, dim1);
  if (op_recorder) [[unlikely]]
    note_op("transpose", {x}, {y}, {{"dims", std::vector{dim0, dim1}}});
  return record(y, "transpose", {x},
                twice([=](const Tensor& g, Gradients& d) { d[0] = transpose(g, dim0, dim1); }));
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check_defined("expand", x);
  if (x.shape() == shape) return x;
  return record(
      untracked::expand(x, shape), "expand", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = sum_to(g, from); }));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  check_defined("sum_to", x);
  if (x.shape() == shape) return x;
  return record(
      untracked::sum_to(x, shape), "sum_to", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = expand(g, from); }));
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  check_defined("unsqueeze", x);
  return record(
      untracked::unsqueeze(x, dim), "unsqueeze", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = reshape(g, from); }));
}

Tensor squeeze(const Tensor& x, int64_t dim) {
  check_defined("squeeze", x);
  return record(
      untracked::squeeze(x, dim), "squeeze", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = reshape(g, from); }));
}

namespace {

// Records `copy`, x's elements in another order.
Tensor rearranged(const char* name, const Tensor& x, const Tensor& copy) {
  const Tensor y =
      record(copy, name, {x}, twice([](const Tensor& g, Gradients& d) { d[0] = contiguous(g); }));
  if (results_are_marked) [[unlikely]]
    mark_made_by_op(y, was_made_by_op(x));
  return y;
}

}  // namespace

Tensor contiguous(const Tensor& x) {
  check_defined("contiguous", x);
  return x.is_contiguous() ? x : rearranged("contiguous", x, untracked::clone(x));
}

Tensor Tensor::clone() const {
  check_defined("clone", *this);
  return rearranged("clone", *this, untracked::clone(*this));
}

Tensor Tensor::to(Device device) const {
  check_defined("to", *this);
  const Tensor y = untracked::to(*this, device);
  if (y.same_body(*this)) return y;
  return record(y, "to", {*this}, twice([home = this->device()](const Tensor& g, Gradients& d) {
                  d[0] = g.to(home);
                }));
}

Tensor channels_last(const Tensor& x) {
  const Tensor y = untracked::channels_last(x);
  return y.same_body(x) ? x : rearranged("channels_last", x, y);
}

Tensor cat(const std::vector<Tensor>& given, int64_t dim) {
  check(!given.empty(), "cat: want at least one tensor");
  std::vector<Tensor> tensors = given;
  apply_policy(Op::cat, tensors);
  const int d = normal_dim("cat", dim, tensors[0].ndim());
  Shape shape = tensors[0].shape();
  DType dtype = tensors[0].dtype();
  shape[d] = 0;
  for (const Tensor& x : tensors) {
    check_defined("cat", x);
    bool fits = x.ndim() == shape.ndim();
    for (int i = 0; fits && i < shape.ndim(); ++i) fits = i == d || x.shape()[i] == shape[i];
    check(fits, "cat: shapes differ outside dimension {}; got {} and {}", d, tensors[0].shape(),
          x.shape());
    shape[d] += x.shape()[d];
    dtype = promote(dtype, x.dtype());
  }
  Tensor y = empty_in_order_of(tensors[0], shape, {dtype, tensors[0].device()});
  std::vector<int64_t> sizes;
  std::vector<DType> dtypes;
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    const int64_t size = x.shape()[d];
    kernels::on(y.device()).copy(untracked::narrow(y, d, at, size).view(), x.view());
    at += size;
    sizes.push_back(size);
    dtypes.push_back(x.dtype());
  }
  if (op_recorder) [[unlikely]]
    note_op("cat", tensors, {y}, {{"dim", d}});
  return record(y, "cat", tensors, twice([=](const Tensor& g, Gradients& grads) {
                  int64_t start = 0;
                  for (size_t i = 0; i < sizes.size(); ++i) {
                    if (grads.wanted(static_cast<int>(i)))
                      grads[static_cast<int>(i)] = cast(narrow(g, d, start, sizes[i]), dtypes[i]);
                    start += sizes[i];
                  }
                }));
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  check(!tensors.empty(), "stack: want at least one tensor");
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) {
    check_defined("stack", x);
    check(x.shape() == tensors[0].shape(), "stack: shapes differ; got {} and {}",
          tensors[0].shape(), x.shape());
    rows.push_back(unsqueeze(x, dim));
  }
  return cat(rows, dim);
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  check_defined("split", x);
  check(size > 0, "split: size must be positive; got {}", size);
  const int d = normal_dim("split", dim, x.ndim());
  std::vector<int64_t> sizes;
  const int64_t n = x.shape()[d];
  for (int64_t at = 0; at == 0 || at < n; at += size) sizes.push_back(std::min(size, n - at));
  return split(x, sizes, d);
}

}  // namespace booster
