// Functions that rearrange numbers without changing them.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

void check_defined(const char* op, const Tensor& x) {
  check(x.defined(), "{}: argument is undefined", op);
}

// Raises the error for a bad index that a kernel found, with its position.
void check_index(const char* op, const Tensor& bad_index, const Tensor& index, int64_t size) {
  const int64_t at = static_cast<int64_t>(bad_index.item());
  if (at < 0) return;
  fail("{}: index out of range; got {} at position {}, want 0 to {}", op,
       index.to_vector<int64_t>()[static_cast<size_t>(at)], at, size - 1);
}

void check_index_dtype(const char* op, const Tensor& index) {
  check_defined(op, index);
  check(index.dtype() == DType::i64, "{}: index must be i64; got {}", op, name_of(index.dtype()));
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_defined("reshape", x);
  return record(
      untracked::reshape(x, shape), "reshape", {x},
      twice([from = x.shape()](const Tensor& g, Gradients& d) { d[0] = reshape(g, from); }));
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  check_defined("flatten", x);
  if (x.ndim() == 0) return reshape(x, {1});
  const int first = normal_dim("flatten", start_dim, x.ndim());
  const int last = normal_dim("flatten", end_dim, x.ndim());
  check(first <= last, "flatten: start after end; got {} and {}", start_dim, end_dim);
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
  return record(untracked::permute(x, order), "permute", {x},
                twice([order, n = x.ndim()](const Tensor& g, Gradients& d) {
                  std::vector<int> back(order.size());
                  for (int i = 0; i < n; ++i) back[normal_dim("permute", order[i], n)] = i;
                  d[0] = permute(g, back);
                }));
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  check_defined("transpose", x);
  return record(untracked::transpose(x, dim0, dim1), "transpose", {x},
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

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  check_defined("narrow", x);
  return record(untracked::narrow(x, dim, start, length), "narrow", {x},
                [=, from = x.shape()](const Tensor& g, Gradients& d) {
                  d[0] = zeros(from, {g.dtype(), g.device()});
                  Tensor window = untracked::narrow(d[0], dim, start, length);
                  kernels::on(g.device()).copy(window.view(), g.view());
                });
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  check_defined("select", x);
  return record(untracked::select(x, dim, index), "select", {x},
                [=, from = x.shape()](const Tensor& g, Gradients& d) {
                  d[0] = zeros(from, {g.dtype(), g.device()});
                  Tensor window = untracked::select(d[0], dim, index);
                  kernels::on(g.device()).copy(window.view(), g.view());
                });
}

Tensor contiguous(const Tensor& x) {
  check_defined("contiguous", x);
  if (x.is_contiguous()) return x;
  const Tensor y = record(x.clone(), "contiguous", {x},
                          twice([](const Tensor& g, Gradients& d) { d[0] = g; }));
  if (results_are_marked) [[unlikely]] mark_made_by_op(y, was_made_by_op(x));
  return y;
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
  Tensor y = empty(shape, {dtype, tensors[0].device()});
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
  std::vector<Tensor> parts;
  const int64_t n = x.shape()[d];
  for (int64_t at = 0; at < n; at += size)
    parts.push_back(narrow(x, d, at, std::min(size, n - at)));
  return parts;
}

Tensor index_select(const Tensor& given, int64_t dim, const Tensor& index) {
  Tensor x = given;
  check_defined("index_select", x);
  check_index_dtype("index_select", index);
  check(index.ndim() == 1, "index_select: index must be a vector; got {}", index.shape());
  apply_policy(Op::index_select, {&x});
  const int d = normal_dim("index_select", dim, x.ndim());
  const Tensor dense = untracked::contiguous(x), places = untracked::contiguous(index);
  Shape shape = x.shape();
  shape[d] = index.numel();
  Tensor y = empty(shape, {x.dtype(), x.device()}), bad = full({1}, -1, {DType::i64, x.device()});
  kernels::on(x.device()).index_select(y.view(), bad.view(), dense.view(), places.view(), d);
  check_index("index_select", bad, places, x.shape()[d]);
  return record(y, "index_select", {x},
                [d, from = x.shape(), places = Saved(places)](const Tensor& g, Gradients& grads) {
                  grads[0] = zeros(from, {g.dtype(), g.device()});
                  kernels::on(g.device())
                      .index_add(grads[0].view(), untracked::contiguous(g).view(),
                                 places.get().view(), d);
                });
}

Tensor gather(const Tensor& given, int64_t dim, const Tensor& index) {
  Tensor x = given;
  check_defined("gather", x);
  check_index_dtype("gather", index);
  check(index.ndim() == x.ndim(), "gather: index must have the tensor's dimensions; got {} and {}",
        index.shape(), x.shape());
  apply_policy(Op::gather, {&x});
  const int d = normal_dim("gather", dim, x.ndim());
  for (int i = 0; i < x.ndim(); ++i)
    check(i == d || index.shape()[i] <= x.shape()[i], "gather: index is larger; got {} for {}",
          index.shape(), x.shape());
  const Tensor dense = untracked::contiguous(x), places = untracked::contiguous(index);
  Tensor y = empty(index.shape(), {x.dtype(), x.device()});
  Tensor bad = full({1}, -1, {DType::i64, x.device()});
  kernels::on(x.device()).gather(y.view(), bad.view(), dense.view(), places.view(), d);
  check_index("gather", bad, places, x.shape()[d]);
  return record(y, "gather", {x},
                [d, from = x.shape(), places = Saved(places)](const Tensor& g, Gradients& grads) {
                  grads[0] = zeros(from, {g.dtype(), g.device()});
                  kernels::on(g.device())
                      .scatter_add(grads[0].view(), untracked::contiguous(g).view(),
                                   places.get().view(), d);
                });
}

}  // namespace booster
