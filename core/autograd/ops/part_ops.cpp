// Functions that split tensors or change some of their elements, composed of other functions.
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/tape.h"
#include "core/tensor/channels_last.h"
#include "core/tensor/checks/first_outside.h"
#include "core/tensor/held_number.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace booster {
namespace {

// Returns a position, which may count from the end, clamped to 0 ... size.
int64_t position(std::optional<int64_t> given, int64_t missing, int64_t size) {
  const int64_t at = given.value_or(missing);
  return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
}

struct Strided {
  int dim;
  int64_t start, length, step;
  Tensor of(const Tensor& x) const {
    Shape shape = x.shape(), strides = x.strides();
    shape[dim] = length;
    const int64_t offset = x.body()->offset + (length > 0 ? start * strides[dim] : 0);
    strides[dim] *= step;
    return untracked::strided(x, shape, strides, offset);
  }
};

Tensor placed_into_zeros(const Tensor& g, const Strided& part, const Shape& whole);

// Records that y is this part of x, for `narrow` and `slice`.
Tensor part_of(const char* name, const Tensor& x, const Tensor& y, const Strided& part) {
  return record(y, name, {x}, twice([part, from = x.shape()](const Tensor& g, Gradients& d) {
                  d[0] = placed_into_zeros(g, part, from);
                }));
}

// Returns zeros of shape `whole` with g in their part.
Tensor placed_into_zeros(const Tensor& g, const Strided& part, const Shape& whole) {
  const Tensor y = zeros_in_order_of(g, whole, {g.dtype(), g.device()});
  kernels::on(g.device()).copy(part.of(y).view(), g.view());
  return record(y, "slice_backward", {g}, twice([part](const Tensor& gg, Gradients& d) {
                  d[0] = part_of("slice", gg, part.of(gg), part);
                }));
}

// Records parts that make up x. `join` joins their gradients, with zeros where none arrived.
template <class Join>
void record_parts(const char* name, std::vector<Tensor>& parts, const Tensor& x, int dim,
                  Join join) {
  if (op_recorder) [[unlikely]]
    note_op(name, {x}, parts, {{"dim", dim}});
  std::vector<Shape> shapes;
  for (const Tensor& part : parts) shapes.push_back(part.shape());
  record_many(parts, name, {x},
              twice([join, shapes, options = TensorOptions{x.dtype(), x.device()}](
                        std::span<const Tensor> g, Gradients& d) {
                const PolicyScope inside(nullptr);
                std::vector<Tensor> all(g.begin(), g.end());
                for (size_t i = 0; i < all.size(); ++i)
                  if (!all[i].defined()) all[i] = zeros(shapes[i], options);
                d[0] = join(all);
              }));
}

// Returns a mask of rows x columns that is true on and below a diagonal, by ops that recorders
// know.
Tensor lower_triangle(int64_t rows, int64_t columns, int64_t diagonal, Device device) {
  const TensorOptions whole{DType::i64, device};
  const Tensor row = untracked::reshape(arange(rows, whole), {rows, 1});
  return less_equal(sub(arange(columns, whole), row), static_cast<double>(diagonal));
}

void check_matrices(const char* op, const Tensor& x) {
  check_defined(op, x);
  check(x.ndim() >= 2, "{}: want matrices; got shape {}", op, x.shape());
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  check_defined("split", x);
  const int d = normal_dim("split", dim, x.ndim());
  const int64_t whole = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  check(whole == x.shape()[d] && std::ranges::all_of(sizes, [](int64_t n) { return n >= 0; }),
        "split: wrong sizes for dimension {} of {}; want sizes >= 0 that add up to {}", d,
        x.shape(), x.shape()[d]);
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    parts.push_back(untracked::narrow(x, d, at, size));
    at += size;
  }
  record_parts("split", parts, x, d, [d](const std::vector<Tensor>& g) { return cat(g, d); });
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t dim) {
  check_defined("chunk", x);
  check(count >= 1, "chunk: want at least one part; got {}", count);
  const int64_t size = x.shape()[normal_dim("chunk", dim, x.ndim())];
  if (size == 0) return std::vector<Tensor>(static_cast<size_t>(count), x);
  const int64_t parts = std::min(count, size);
  return split(x, (size + parts - 1) / parts, dim);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  check_defined("unbind", x);
  const int d = normal_dim("unbind", dim, x.ndim());
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.shape()[d]; ++i) parts.push_back(untracked::select(x, d, i));
  record_parts("unbind", parts, x, d, [d](const std::vector<Tensor>& g) { return stack(g, d); });
  return parts;
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  check_defined("narrow", x);
  const Tensor y = untracked::narrow(x, dim, start, length);
  if (op_recorder) [[unlikely]]
    note_op("slice", {x}, {y},
            {{"dim", dim}, {"start", start}, {"end", start + length}, {"step", 1}});
  return part_of("narrow", x, y, {normal_dim("narrow", dim, x.ndim()), start, length, 1});
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  check_defined("select", x);
  const Tensor y = untracked::select(x, dim, index);
  const int d = normal_dim("select", dim, x.ndim());
  const Strided part = {d, index < 0 ? index + x.shape()[d] : index, 1, 1};
  if (op_recorder) [[unlikely]]
    note_op("select", {x}, {y}, {{"dim", d}, {"index", index}});
  return record(y, "select", {x}, twice([=, from = x.shape()](const Tensor& g, Gradients& grads) {
                  grads[0] = placed_into_zeros(unsqueeze(g, d), part, from);
                }));
}

Tensor Tensor::operator[](int64_t index) const { return booster::select(*this, 0, index); }

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step) {
  check_defined("slice", x);
  check(step >= 1, "slice: step is out of range; got {}, want at least 1 (flip reverses)", step);
  const int d = normal_dim("slice", dim, x.ndim());
  const int64_t size = x.shape()[d];
  const int64_t from = position(start, 0, size), to = position(end, size, size);
  const Strided part = {d, from, to > from ? (to - from - 1) / step + 1 : 0, step};
  const Tensor y = part.of(x);
  if (op_recorder) [[unlikely]]
    note_op("slice", {x}, {y},
            {{"dim", d},
             {"start", start.value_or(0)},
             {"end", end.value_or(std::numeric_limits<int64_t>::max())},
             {"step", step}});
  return part_of("slice", x, y, part);
}

namespace {

// Returns x with these dimensions reversed, by one copy.
Tensor reversed(const Tensor& x, const std::vector<int>& dims) {
  const Tensor y = empty_in_order_of(x, x.dtype());
  kernels::View from = x.view();
  for (const int d : dims) {
    from.data = from.as<char>() + (x.shape()[d] - 1) * from.strides[d] * size_of(from.dtype);
    from.strides[d] = -from.strides[d];
  }
  if (x.numel() > 0) kernels::on(x.device()).copy(y.view(), from);
  return record(y, "flip", {x}, twice([dims](const Tensor& g, Gradients& d) {
                  d[0] = reversed(g, dims);
                }));
}

// Returns the same by selections, which recorders of ops know.
Tensor reversed_by_index(const Tensor& x, const std::vector<int>& dims) {
  Tensor y = x;
  for (const int d : dims) {
    std::vector<int64_t> order(static_cast<size_t>(x.shape()[d]));
    std::iota(order.rbegin(), order.rend(), 0);
    y = index_select(y, d, from_vector(order, {x.shape()[d]}).to(x.device()));
  }
  return y;
}

}  // namespace

Tensor flip(const Tensor& x, const std::vector<int64_t>& dims) {
  check_defined("flip", x);
  const PolicyScope inside(nullptr);
  std::vector<int> seen;
  for (const int64_t dim : dims) {
    const int d = normal_dim_or_only("flip", dim, x.ndim());
    check(std::ranges::find(seen, d) == seen.end(), "flip: dimension {} occurs twice", dim);
    seen.push_back(d);
  }
  if (x.ndim() == 0 || seen.empty()) return x;
  return op_recorder ? reversed_by_index(x, seen) : reversed(x, seen);
}

// Takes every (columns + 1)-th element of each matrix, flattened row by row.
Tensor diagonal(const Tensor& x, int64_t dim0, int64_t dim1) {
  check_defined("diagonal", x);
  const int a = normal_dim("diagonal", dim0, x.ndim()), b = normal_dim("diagonal", dim1, x.ndim());
  check(a != b, "diagonal: want two different dimensions; got {} twice, of {}", dim0, x.shape());
  const PolicyScope inside(nullptr);
  std::vector<int> order;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != a && i != b) order.push_back(i);
  order.insert(order.end(), {a, b});
  const int64_t rows = x.shape()[a], step = x.shape()[b] + 1;
  const int64_t end = std::min(rows, x.shape()[b]) * step;
  return slice(flatten(permute(x, order), -2), -1, 0, end, step);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_defined("masked_fill", x);
  check_defined("masked_fill", mask);
  check(mask.dtype() == DType::boolean, "masked_fill: the mask must be bool; got {}",
        name_of(mask.dtype()));
  check(broadcast_shapes("masked_fill", mask.shape(), x.shape()) == x.shape(),
        "masked_fill: the mask is larger; got {}, want a shape that broadcasts to {}", mask.shape(),
        x.shape());
  check_held("masked_fill", value, x.dtype());
  const PolicyScope inside(nullptr);
  return where(mask, scalar(value, {x.dtype(), x.device()}), x);
}

namespace {

// Returns x with zeros above a diagonal, or below it. Whether an element stays depends only on
// column - row: the mask is a vector, read along diagonals.
Tensor triangle(const Tensor& x, int64_t diagonal, bool is_lower) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const Tensor y = empty_in_order_of(x, x.dtype());
  if (x.numel() > 0) {
    const int64_t limit = std::clamp(diagonal, -rows - 1, columns + 1) + rows - 1;
    const Tensor differences = arange(rows + columns - 1, {DType::i64, x.device()});
    const Tensor stays = is_lower ? less_equal(differences, static_cast<double>(limit))
                                  : greater_equal(differences, static_cast<double>(limit));
    kernels::View mask = untracked::expand(stays[0], x.shape()).view();
    mask.data = mask.as<char>() + rows - 1;
    mask.strides[x.ndim() - 2] = -1;
    mask.strides[x.ndim() - 1] = 1;
    const Tensor zero = untracked::expand(scalar(0, {x.dtype(), x.device()}), x.shape());
    kernels::on(x.device()).where(y.view(), mask, x.view(), zero.view());
  }
  return record(y, is_lower ? "tril" : "triu", {x},
                twice([diagonal, is_lower](const Tensor& g, Gradients& d) {
                  d[0] = triangle(g, diagonal, is_lower);
                }));
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) {
  check_matrices("tril", x);
  const PolicyScope inside(nullptr);
  if (!op_recorder) return triangle(x, diagonal, true);
  return where(lower_triangle(x.size(-2), x.size(-1), diagonal, x.device()), x,
               scalar(0, {x.dtype(), x.device()}));
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  check_matrices("triu", x);
  const PolicyScope inside(nullptr);
  if (!op_recorder) return triangle(x, diagonal, false);
  return masked_fill(x, lower_triangle(x.size(-2), x.size(-1), diagonal - 1, x.device()), 0);
}

Tensor one_hot(const Tensor& index, int64_t classes) {
  check_defined("one_hot", index);
  check(index.dtype() == DType::i64, "one_hot: index must be i64; got {}", name_of(index.dtype()));
  check(classes >= 1, "one_hot: want at least one class; got {}", classes);
  if (const int64_t at = first_outside(index, 0, static_cast<double>(classes - 1)); at >= 0)
    fail("one_hot: index out of range; got {} at position {}, want 0 to {}",
         index.to_vector<int64_t>()[static_cast<size_t>(at)], at, classes - 1);
  const Tensor numbers = arange(classes, {DType::i64, index.device()});
  const Tensor y = untracked::cast(equal(untracked::unsqueeze(index, -1), numbers), DType::i64);
  if (op_recorder) [[unlikely]]
    note_op("one_hot", {index}, {y}, {{"classes", classes}});
  return y;
}

}  // namespace booster
