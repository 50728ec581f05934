// Padding of the last dimensions, with a constant or with inner values.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/tape.h"
#include "core/tensor/channels_last.h"
#include "core/tensor/held_number.h"
#include "kernels/catalogue.h"

#include <algorithm>

namespace booster {
namespace {

// The two widths of one dimension; negative ones crop.
struct Border {
  int dim;
  int64_t before, after, size;
  int64_t padded() const { return size + before + after; }
};

// Returns the borders, the last dimension first.
std::vector<Border> borders(const Tensor& x, const std::vector<int64_t>& sizes) {
  check_defined("pad", x);
  check(sizes.size() % 2 == 0 && static_cast<int>(sizes.size()) <= 2 * x.ndim(),
        "pad: too many or odd sizes; got {1}, want two for each of at most {0} dimensions",
        x.ndim(), sizes.size());
  std::vector<Border> all;
  for (size_t i = 0; i < sizes.size(); i += 2) {
    const int dim = x.ndim() - 1 - static_cast<int>(i / 2);
    all.push_back({dim, sizes[i], sizes[i + 1], x.shape()[dim]});
  }
  return all;
}

Tensor without_cut(const Tensor& x, const Border& b) {
  const int64_t start = std::max<int64_t>(-b.before, 0), end = std::max<int64_t>(-b.after, 0);
  check(b.size - start - end >= 0,
        "pad: crops more than dimension {} has; got {} and {}, want at most {} together", b.dim,
        b.before, b.after, b.size);
  return narrow(x, b.dim, start, b.size - start - end);
}

// Returns the part of y that lies within the added borders. `narrow` is recorded or not.
template <class Narrow>
Tensor inside_of(Tensor y, const std::vector<Border>& all, Narrow narrow) {
  for (const Border& b : all) {
    const int64_t before = std::max<int64_t>(b.before, 0), after = std::max<int64_t>(b.after, 0);
    y = narrow(y, b.dim, before, y.size(b.dim) - before - after);
  }
  return y;
}

void note_pad(const Tensor& x, const Tensor& y, const std::vector<Border>& all, double value) {
  std::vector<int64_t> before(static_cast<size_t>(x.ndim())), after = before;
  for (const Border& b : all) {
    before[static_cast<size_t>(b.dim)] = std::max<int64_t>(b.before, 0);
    after[static_cast<size_t>(b.dim)] = std::max<int64_t>(b.after, 0);
  }
  note_op("pad", {x}, {y}, {{"before", before}, {"after", after}, {"number", value}});
}

// Copies x, without what is cut off, into a tensor that is filled with the value.
Tensor constant_borders(const Tensor& x, const std::vector<Border>& all, double value) {
  Tensor kept = x;
  for (const Border& b : all) kept = without_cut(kept, b);
  Shape shape = kept.shape();
  for (const Border& b : all) shape[b.dim] = b.padded();
  if (shape == kept.shape()) return contiguous(kept);
  const Tensor y = empty_in_order_of(kept, shape, {x.dtype(), x.device()});
  const auto& table = kernels::on(x.device());
  table.fill(y.view(), value);
  table.copy(inside_of(y, all, untracked::narrow).view(), kept.view());
  if (op_recorder) [[unlikely]] note_pad(kept, y, all, value);
  return record(y, "pad", {kept}, twice([all](const Tensor& g, Gradients& d) {
                  d[0] = inside_of(g, all, [](auto&&... x) { return narrow(x...); });
                }));
}

void check_inner(const std::string& mode, const Border& b) {
  check(b.size > 0 && b.padded() > 0,
        "pad: dimension {} is empty before or after padding; got {} and {} for {}", b.dim, b.before,
        b.after, b.size);
  const int64_t most = mode == "reflect" ? b.size - 1 : b.size;
  check(mode == "replicate" || std::max(b.before, b.after) <= most,
        "pad: too wide for {} in dimension {}; got {} and {}, want at most {}", mode, b.dim,
        b.before, b.after, most);
}

// Returns the place inside of `size` that supplies the value for a place outside.
int64_t inner_place(const std::string& mode, int64_t place, int64_t size) {
  if (mode == "replicate") return std::clamp<int64_t>(place, 0, size - 1);
  if (mode == "circular") return (place + size) % size;
  const int64_t from_start = place < 0 ? -place : place;
  return from_start < size ? from_start : 2 * (size - 1) - from_start;
}

Tensor inner_border(const Tensor& given, Border b, const std::string& mode) {
  check_inner(mode, b);
  Tensor x = given;
  if (mode == "circular") {  // a circle consists of the cropped side
    x = without_cut(x, b);
    b = {b.dim, std::max<int64_t>(b.before, 0), std::max<int64_t>(b.after, 0), x.size(b.dim)};
    check_inner(mode, b);
  }
  std::vector<int64_t> places(static_cast<size_t>(b.padded()));
  for (int64_t i = 0; i < b.padded(); ++i)
    places[static_cast<size_t>(i)] = inner_place(mode, i - b.before, b.size);
  return index_select(x, b.dim, from_vector(places, {b.padded()}).to(x.device()));
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, double value) {
  const PolicyScope inside(nullptr);
  const std::vector<Border> all = borders(x, sizes);
  check_held("pad", value, x.dtype());
  return constant_borders(x, all, value);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, const std::string& mode) {
  const std::vector<std::string> modes = {"constant", "reflect", "replicate", "circular"};
  check(std::ranges::find(modes, mode) != modes.end(), "pad: unknown mode; got {}{}", mode,
        legal_names(mode, modes));
  if (mode == "constant") return pad(x, sizes);
  const std::vector<Border> all = borders(x, sizes);
  const int n = static_cast<int>(all.size());
  check(n >= 1 && n <= 3 && (x.ndim() == n + 1 || x.ndim() == n + 2),
        "pad: {} pads the last one, two or three dimensions after one or two others; got {} sizes "
        "for {}",
        mode, sizes.size(), x.shape());
  Tensor y = x;
  // Copies of mode "circular" keep their dtype, and torch's lists have no padding of three
  // dimensions.
  if (mode == "replicate") apply_policy(Op::replication_pad, {&y});
  if (mode == "reflect" && n < 3) apply_policy(Op::reflection_pad, {&y});
  const PolicyScope inside(nullptr);
  if (!is_channels_last(y)) {
    for (const Border& border : all) y = inner_border(y, border, mode);
    return y;
  }
  y = permute(y, {0, 2, 3, 1});  // whole pixels are copied
  for (Border border : all) {
    border.dim = border.dim == 1 ? 3 : border.dim - 1;
    y = inner_border(y, border, mode);
  }
  return permute(y, {0, 3, 1, 2});
}

}  // namespace booster
