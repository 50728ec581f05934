// Reading and writing by index. Each function checks the caller's indices before a kernel uses
// them.
#include "core/autograd/ops/index_ops.h"

#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/vectors.h"
#include "core/autograd/tape.h"
#include "core/tensor/checks/checked_index.h"
#include "core/tensor/held_number.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <initializer_list>

namespace booster {
namespace {

// Returns `index` once the kernel has validated it. The error gives the offending position, the
// caller's value there (from `given`), and the range `least` to size - 1.
Tensor checked_places(const char* op, const Tensor& bad_index, const Tensor& index, int64_t size,
                      const Tensor& given, int64_t least) {
  return checked_index(bad_index, index, size, [op, given, size, least](int64_t at) {
    fail("{}: index out of range; got {} at position {}, want {} to {}", op,
         given.to_vector<int64_t>()[static_cast<size_t>(at)], at, least, size - 1);
  });
}
Tensor checked_places(const char* op, const Tensor& bad_index, const Tensor& index, int64_t size) {
  return checked_places(op, bad_index, index, size, index, 0);
}

// Returns the index as kernels need it: dense, in i64.
Tensor dense_index(const char* op, const Tensor& index) {
  check(index.defined(), "{}: argument is undefined", op);
  check(index.dtype() == DType::i64 || index.dtype() == DType::i32,
        "{}: index must be i64 or i32; got {}", op, name_of(index.dtype()));
  return untracked::contiguous(untracked::cast(index, DType::i64));
}

// Values of x at dense places along dimension d, and the kernel's result of checking the places.
struct Found {
  Tensor values, bad_index;
};
Found found_at(const Tensor& x, int d, const Tensor& places) {
  const Found found = {room_for_read(places.shape(), {x.dtype(), x.device()}),
                       full({1}, -1, {DType::i64, x.device()})};
  const Tensor dense = untracked::contiguous(x);
  kernels::on(x.device())
      .gather(found.values.view(), found.bad_index.view(), dense.view(), places.view(), d);
  return found;
}

// Checks the index of gather and scatter against x and returns it dense.
Tensor places_in(const char* op, const Tensor& x, int d, const Tensor& index) {
  const Tensor places = dense_index(op, index);
  check(index.ndim() == x.ndim(),
        "{}: index has a wrong number of dimensions; got {} and {}, want the tensor's", op,
        index.shape(), x.shape());
  for (int i = 0; i < x.ndim(); ++i)
    check(i == d || index.shape()[i] <= x.shape()[i] || index.numel() == 0,
          "{}: index is larger; got {} for {}", op, index.shape(), x.shape());
  return places;
}

Tensor gathered(const Tensor& x, int d, const Tensor& places);

// Returns x with the terms added at the places, which are already checked.
Tensor added_at(const Tensor& x, int d, const Tensor& places, const Tensor& terms) {
  const Tensor y = untracked::clone(x), dense = untracked::contiguous(terms);
  kernels::on(x.device()).scatter_add(y.view(), dense.view(), places.view(), d);
  return record(y, "scatter_add", {x, terms},
                twice([d, places = Saved(places)](const Tensor& g, Gradients& grads) {
                  if (grads.wanted(0)) grads[0] = g;
                  if (grads.wanted(1)) grads[1] = gathered(g, d, places);
                }));
}

// Returns x with `numbers` written at the places, which are already checked. As in torch, all
// numbers written to one place get the gradient of the last one.
Tensor written_at(const Tensor& x, int d, const Tensor& places, const Tensor& numbers) {
  const Tensor y = untracked::clone(x), dense = untracked::contiguous(numbers);
  kernels::on(x.device()).scatter(y.view(), dense.view(), places.view(), d);
  return record(y, "scatter", {x, numbers},
                twice([d, places = Saved(places)](const Tensor& g, Gradients& grads) {
                  const Tensor at = places;
                  if (grads.wanted(0))
                    grads[0] = written_at(g, d, at, zeros(at.shape(), {g.dtype(), g.device()}));
                  if (grads.wanted(1)) grads[1] = gathered(g, d, at);
                }));
}

Tensor record_gather(const Tensor& y, const Tensor& x, int d, const Tensor& places) {
  return record(
      y, "gather", {x},
      twice([d, from = x.shape(), places = Saved(places)](const Tensor& g, Gradients& grads) {
        grads[0] = added_at(zeros(from, {g.dtype(), g.device()}), d, places, g);
      }));
}

Tensor gathered(const Tensor& x, int d, const Tensor& places) {
  return record_gather(found_at(x, d, places).values, x, d, places);
}

Tensor selected(const Tensor& y, const Tensor& x, int d, const Tensor& places);

// Returns zeros of a shape with slices added at the places: the gradient of index_select.
Tensor slices_in_zeros(const Tensor& g, const Shape& whole, int d, const Tensor& places) {
  const Tensor y = zeros(whole, {g.dtype(), g.device()});
  kernels::on(g.device()).index_add(y.view(), untracked::contiguous(g).view(), places.view(), d);
  return record(y, "index_add", {g},
                twice([d, places = Saved(places)](const Tensor& gg, Gradients& grads) {
                  const Tensor at = places;
                  Shape shape = gg.shape();
                  shape[d] = at.numel();
                  const TensorOptions options{gg.dtype(), gg.device()};
                  const Tensor slices = empty(shape, options), dense = untracked::contiguous(gg),
                               bad = full({1}, -1, {DType::i64, gg.device()});
                  kernels::on(gg.device())
                      .index_select(slices.view(), bad.view(), dense.view(), at.view(), d);
                  grads[0] = selected(slices, gg, d, at);
                }));
}

Tensor selected(const Tensor& y, const Tensor& x, int d, const Tensor& places) {
  return record(
      y, "index_select", {x},
      twice([d, from = x.shape(), places = Saved(places)](const Tensor& g, Gradients& grads) {
        grads[0] = slices_in_zeros(g, from, d, places);
      }));
}

// Returns slices of x at `places`. Errors show the caller's value `given`, whose legal range begins
// at `least`.
Tensor slices_of(const char* op, const Tensor& x, int d, const Tensor& places, const Tensor& given,
                 int64_t least) {
  const Tensor dense = untracked::contiguous(x);
  Shape shape = x.shape();
  shape[d] = places.numel();
  const Tensor y = room_for_read(shape, {x.dtype(), x.device()}),
               bad = full({1}, -1, {DType::i64, x.device()});
  kernels::on(x.device()).index_select(y.view(), bad.view(), dense.view(), places.view(), d);
  return selected(y, x, d, checked_places(op, bad, places, x.shape()[d], given, least));
}

bool has_scalar(std::initializer_list<Tensor> arguments) {
  return std::ranges::any_of(arguments, [](const Tensor& x) { return x.ndim() == 0; });
}

// Checked arguments of scatter and scatter_add, with one number per index.
struct Scatter {
  Tensor x, places, numbers;
  int d;
};

Scatter checked(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                const Tensor& numbers) {
  check(x.dtype() == numbers.dtype(), "{}: dtypes differ; got {} and {}", op, name_of(x.dtype()),
        name_of(numbers.dtype()));
  const int d = normal_dim(op, dim, x.ndim());
  Tensor places = places_in(op, x, d, index);
  check(numbers.ndim() == x.ndim(),
        "{}: numbers have a wrong number of dimensions; got {} and {}, want the tensor's", op,
        numbers.shape(), x.shape());
  Tensor part = numbers;
  for (int i = 0; i < x.ndim(); ++i) {
    check(index.shape()[i] <= numbers.shape()[i] || index.numel() == 0,
          "{}: index is larger than the numbers; got {} and {}", op, index.shape(),
          numbers.shape());
    if (index.shape()[i] < part.shape()[i]) part = narrow(part, i, 0, index.shape()[i]);
  }
  if (index.numel() > 0)
    places = checked_places(op, found_at(x, d, places).bad_index, places, x.shape()[d]);
  return {x, places, part, d};
}

}  // namespace

Tensor index_select(const Tensor& given, int64_t dim, const Tensor& index) {
  Tensor x = given;
  check(x.defined(), "index_select: argument is undefined");
  const Tensor places = dense_index("index_select", index);
  check(index.ndim() <= 1, "index_select: index must be a vector; got {}", index.shape());
  if (x.ndim() == 0) {
    check(index.numel() == 1, "index_select: wrong shape of index; got {}, want one element",
          index.numel());
    return reshape(index_select(as_vector(x), dim, index), {});
  }
  apply_policy(Op::index_select, {&x});
  const int d = normal_dim("index_select", dim, x.ndim());
  const Tensor y = slices_of("index_select", x, d, places, places, 0);
  if (op_recorder) [[unlikely]]
    note_op("index_select", {x, index}, {y}, {{"dim", d}});
  return y;
}

Tensor slices_at(const char* op, const Tensor& x, int dim, const Tensor& positions) {
  const Tensor given = untracked::reshape(dense_index(op, positions), {positions.numel()});
  const int64_t size = x.size(dim);
  const Tensor places = where(less(given, 0.0), add(given, static_cast<double>(size)), given);
  Shape shape = x.shape();
  shape.erase(dim);
  for (int i = 0; i < positions.ndim(); ++i) shape.insert(dim + i, positions.shape()[i]);
  const Tensor y = reshape(slices_of(op, x, dim, places, given, -size), shape);
  if (op_recorder) [[unlikely]]
    note_op("index_select", {x, positions}, {y}, {{"dim", dim}});
  return y;
}

Tensor gather(const Tensor& given, int64_t dim, const Tensor& index) {
  Tensor x = given;
  check(x.defined() && index.defined(), "gather: argument is undefined");
  if (has_scalar({x, index}))
    return reshape(gather(as_vector(x), dim, as_vector(index)), index.shape());
  apply_policy(Op::gather, {&x});
  const int d = normal_dim("gather", dim, x.ndim());
  const Tensor places = places_in("gather", x, d, index);
  const Found found = found_at(x, d, places);
  if (op_recorder) [[unlikely]]
    note_op("gather", {x, index}, {found.values}, {{"dim", d}});
  return record_gather(found.values, x, d,
                       checked_places("gather", found.bad_index, places, x.shape()[d]));
}

Tensor scatter(const Tensor& given, int64_t dim, const Tensor& index, const Tensor& numbers) {
  Tensor x = given, src = numbers;
  check(x.defined() && index.defined() && src.defined(), "scatter: argument is undefined");
  if (has_scalar({x, index, src}))
    return reshape(scatter(as_vector(x), dim, as_vector(index), as_vector(src)), x.shape());
  apply_policy(Op::scatter, {&x, &src});
  const Scatter to = checked("scatter", x, dim, index, src);
  const Tensor y = written_at(to.x, to.d, to.places, to.numbers);
  if (op_recorder) [[unlikely]]
    note_op("scatter", {to.x, index, to.numbers}, {y}, {{"dim", to.d}});
  return y;
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  check(x.defined() && index.defined(), "scatter: argument is undefined");
  check_held("scatter", value, x.dtype());
  return scatter(x, dim, index, full(index.shape(), value, {x.dtype(), x.device()}));
}

Tensor scatter_add(const Tensor& given, int64_t dim, const Tensor& index, const Tensor& terms) {
  Tensor x = given, src = terms;
  check(x.defined() && index.defined() && src.defined(), "scatter_add: argument is undefined");
  if (has_scalar({x, index, src}))
    return reshape(scatter_add(as_vector(x), dim, as_vector(index), as_vector(src)), x.shape());
  apply_policy(Op::scatter_add, {&x, &src});
  const Scatter to = checked("scatter_add", x, dim, index, src);
  const Tensor y = added_at(to.x, to.d, to.places, to.numbers);
  if (op_recorder) [[unlikely]]
    note_op("scatter_add", {to.x, index, to.numbers}, {y}, {{"dim", to.d}});
  return y;
}

}  // namespace booster
