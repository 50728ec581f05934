// Functions that repeat, shift or lay out elements, composed of other functions.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/ops/vectors.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// Returns every slice of dimension d `count` times in sequence.
Tensor each_repeated(const Tensor& x, int d, int64_t count) {
  Shape shape = x.shape();
  shape.insert(d + 1, count);
  return flatten(expand(unsqueeze(x, d + 1), shape), d, d + 1);
}

// Returns the whole of x `count` times along dimension d.
Tensor whole_repeated(const Tensor& x, int d, int64_t count) {
  Shape shape = x.shape();
  shape.insert(d, count);
  return flatten(expand(unsqueeze(x, d), shape), d, d + 1);
}

Tensor rolled(const Tensor& x, int d, int64_t shift) {
  const int64_t size = x.shape()[d];
  if (size == 0) return x;
  const int64_t by = (shift % size + size) % size;
  if (by == 0) return x;
  return cat({narrow(x, d, size - by, by), narrow(x, d, 0, size - by)}, d);
}

}  // namespace

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int64_t>& dims) {
  check_defined("roll", x);
  const PolicyScope inside(nullptr);
  if (dims.empty()) {
    check(shifts.size() == 1, "roll: want one shift, or as many dimensions; got {} shifts",
          shifts.size());
    return reshape(rolled(flatten(x), 0, shifts[0]), x.shape());
  }
  check(shifts.size() == dims.size(), "roll: want a shift for each dimension; got {} for {}",
        shifts.size(), dims.size());
  Tensor y = x;
  for (size_t i = 0; i < dims.size(); ++i)
    y = rolled(y, normal_dim("roll", dims[i], x.ndim()), shifts[i]);
  return y;
}

Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts) {
  check_defined("repeat", x);
  check(static_cast<int>(counts.size()) >= x.ndim(),
        "repeat: too few counts; got {} for {}, want one for each dimension", counts.size(),
        x.shape());
  check(std::ranges::all_of(counts, [](int64_t n) { return n >= 0; }),
        "repeat: a count is negative; want counts >= 0");
  const PolicyScope inside(nullptr);
  Tensor y = x;
  while (y.ndim() < static_cast<int>(counts.size())) y = unsqueeze(y, 0);
  for (int d = 0; d < y.ndim(); ++d)
    if (const int64_t count = counts[static_cast<size_t>(d)]; count != 1)
      y = whole_repeated(y, d, count);
  return y.same_body(x) ? x.clone() : y;
}

Tensor tile(const Tensor& x, std::vector<int64_t> counts) {
  check_defined("tile", x);
  while (static_cast<int>(counts.size()) < x.ndim()) counts.insert(counts.begin(), 1);
  return repeat(x, counts);
}

Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> dim) {
  check_defined("repeat_interleave", x);
  check(count >= 0, "repeat_interleave: the count is negative; got {}", count);
  const PolicyScope inside(nullptr);
  if (!dim) return each_repeated(flatten(x), 0, count);
  return each_repeated(x, normal_dim("repeat_interleave", *dim, x.ndim()), count);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> dim) {
  check_defined("repeat_interleave", x);
  check_defined("repeat_interleave", counts);
  const PolicyScope inside(nullptr);
  const Tensor from = dim ? x : flatten(x);
  const int d = dim ? normal_dim("repeat_interleave", *dim, x.ndim()) : 0;
  check(counts.ndim() == 1 && counts.numel() == from.size(d) && !is_floating(counts.dtype()),
        "repeat_interleave: wrong counts; got {} {}, want ({}) integers", name_of(counts.dtype()),
        counts.shape(), from.size(d));
  std::vector<int64_t> places;
  const auto of_each = counts.to_vector<int64_t>();
  for (size_t i = 0; i < of_each.size(); ++i) {
    check(of_each[i] >= 0, "repeat_interleave: a count is negative; got {} at position {}",
          of_each[i], i);
    places.insert(places.end(), static_cast<size_t>(of_each[i]), static_cast<int64_t>(i));
  }
  const auto total = static_cast<int64_t>(places.size());
  return index_select(from, d, from_vector(places, {total}).to(x.device()));
}

Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes) {
  check_defined("unflatten", x);
  const int d = normal_dim("unflatten", dim, x.ndim());
  Shape parts = sizes, shape = x.shape();
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < parts.ndim(); ++i) {
    if (parts[i] == -1 && open < 0)
      open = i;
    else
      known *= parts[i];
  }
  if (open >= 0) parts[open] = known > 0 ? shape[d] / known : 0;
  check(parts.ndim() > 0 && parts.numel() == shape[d],
        "unflatten: sizes do not multiply to the dimension; got {} for {}", sizes, shape[d]);
  shape.erase(d);
  for (int i = 0; i < parts.ndim(); ++i) shape.insert(d + i, parts[i]);
  return reshape(x, shape);
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  check_defined("unfold", x);
  const int d = normal_dim("unfold", dim, x.ndim());
  check(size >= 1 && step >= 1 && size <= x.size(d),
        "unfold: wrong windows; got size {} and step {} for a dimension of {}, want at least 1 and "
        "at most the dimension",
        size, step, x.size(d));
  const PolicyScope inside(nullptr);
  const int64_t windows = (x.size(d) - size) / step + 1;
  std::vector<Tensor> places;
  for (int64_t i = 0; i < size; ++i)
    places.push_back(slice(x, d, i, i + (windows - 1) * step + 1, step));
  return stack(places, -1);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, const std::string& indexing) {
  check(!axes.empty(), "meshgrid: want at least one vector");
  check(indexing == "ij" || indexing == "xy", "meshgrid: unknown indexing; got {}{}", indexing,
        legal_names(indexing, {"ij", "xy"}));
  Shape shape;
  for (const Tensor& axis : axes) {
    check_defined("meshgrid", axis);
    check(axis.ndim() <= 1, "meshgrid: want vectors; got shape {}", axis.shape());
    shape.push_back(axis.numel());
  }
  std::vector<Tensor> grid;
  for (size_t i = 0; i < axes.size(); ++i) {
    Shape along;
    for (size_t j = 0; j < axes.size(); ++j) along.push_back(i == j ? axes[i].numel() : 1);
    const Tensor y = expand(reshape(axes[i], along), shape);
    grid.push_back(indexing == "xy" && axes.size() > 1 ? transpose(y, 0, 1) : y);
  }
  return grid;
}

// Pads each element to a row of m + 1, so that the rows of the flat square matrix shift by one.
Tensor diag_embed(const Tensor& x, int64_t offset) {
  check_defined("diag_embed", x);
  check(x.ndim() >= 1, "diag_embed: want at least one dimension; got none");
  const PolicyScope inside(nullptr);
  const int64_t n = x.size(-1), side = n + std::abs(offset);
  const int64_t before = offset >= 0 ? offset : -offset * side;
  const Tensor rows = flatten(pad(unsqueeze(x, -1), {0, side}), -2);
  const Tensor flat = pad(rows, {before, side * side - before - n * (side + 1)});
  return unflatten(flat, -1, {side, side});
}

Tensor diag(const Tensor& x, int64_t offset) {
  check_defined("diag", x);
  check(x.ndim() == 1 || x.ndim() == 2, "diag: want a vector or a matrix; got shape {}", x.shape());
  if (x.ndim() == 1) return diag_embed(x, offset);
  const int d = offset > 0 ? 1 : 0;
  const int64_t cut = std::min(std::abs(offset), x.size(d));
  return diagonal(narrow(x, d, cut, x.size(d) - cut));
}

Tensor arange_by(double first, double end, double step, TensorOptions options) {
  check(step != 0, "arange: step is 0; want another number");
  check((end - first) / step >= 0, "arange: the step leads away from the end; got {} to {} by {}",
        first, end, step);
  const auto n = static_cast<int64_t>(std::ceil((end - first) / step));
  std::vector<double> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  return untracked::to(untracked::cast(from_vector(values, {n}), options.dtype), options.device);
}

Tensor full_like(const Tensor& x, double value) {
  check_defined("full_like", x);
  return full(x.shape(), value, {x.dtype(), x.device()});
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, TensorOptions options) {
  const TensorOptions whole{DType::i64, options.device};
  const Tensor row = untracked::unsqueeze(arange(rows, whole), 1);
  return untracked::cast(equal(row, arange(columns.value_or(rows), whole)), options.dtype);
}

}  // namespace booster
