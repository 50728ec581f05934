// Reading images at given places (Jaderberg et al., 2015), by the formulas of torch's grid_sample.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

namespace booster {
namespace {

// Returns the coordinates along one side in pixels, from -1 to 1.
Tensor pixels(const Tensor& unit, int64_t side, const GridSampleOptions& options) {
  const auto size = static_cast<double>(side);
  const Tensor place =
      options.align_corners ? (unit + 1) * ((size - 1) / 2) : ((unit + 1) * size - 1) * 0.5;
  return options.padding == "border" ? clamp(place, 0, size - 1) : place;
}

// Returns the values of x at whole places (n, windows), 0 outside: (n, channels, windows).
Tensor values_at(const Tensor& x, const Tensor& row, const Tensor& column) {
  const int64_t h = x.size(2), w = x.size(3);
  const auto inside = [](const Tensor& place, int64_t size) {
    return logical_and(greater_equal(place, 0.0), less(place, static_cast<double>(size)));
  };
  const auto whole = [](const Tensor& place, int64_t size) {
    return clamp(nan_to_num(place, 0), 0, static_cast<double>(size - 1)).to(DType::i64);
  };
  const Tensor place = whole(row, h) * static_cast<double>(w) + whole(column, w);
  const Tensor is_inside = logical_and(inside(row, h), inside(column, w));
  const Tensor index =
      untracked::expand(untracked::unsqueeze(place, 1), {x.size(0), x.size(1), place.size(1)});
  const Tensor values = gather(flatten(x, 2), 2, untracked::contiguous(index));
  return where(unsqueeze(is_inside, 1), values, scalar(0, {x.dtype(), x.device()}));
}

Tensor between_neighbours(const Tensor& x, const Tensor& row, const Tensor& column) {
  const Tensor top = floor(row.detach()), left = floor(column.detach());
  const Tensor lower = row - top, right = column - left;
  Tensor y;
  for (int corner = 0; corner < 4; ++corner) {
    const bool below = corner & 2, after = corner & 1;
    const Tensor share = (below ? lower : 1.0 - lower) * (after ? right : 1.0 - right);
    const Tensor part = values_at(x, below ? top + 1 : top, after ? left + 1 : left);
    const Tensor term = part * unsqueeze(share, 1);
    y = y.defined() ? y + term : term;
  }
  return y;
}

}  // namespace

Tensor grid_sample(const Tensor& given, const Tensor& grid, GridSampleOptions options) {
  arguments::floating("grid_sample", "x", given);
  arguments::floating("grid_sample", "grid", grid);
  if (given.ndim() != 4 || grid.ndim() != 4 || grid.size(3) != 2 || grid.size(0) != given.size(0))
    fail(
        "grid_sample: shapes do not match; got {} and grid {}, want (n, channels, h, w) and (n, "
        "h', w', 2)",
        given.shape(), grid.shape());
  check(given.size(2) > 0 && given.size(3) > 0, "grid_sample: an image has no pixels; got {}",
        given.shape());
  check(options.mode == "bilinear" || options.mode == "nearest",
        "grid_sample: unknown mode; got {}{}", options.mode,
        legal_names(options.mode, {"bilinear", "nearest"}));
  check(options.padding == "zeros" || options.padding == "border",
        "grid_sample: unknown padding; got {}{}", options.padding,
        legal_names(options.padding, {"zeros", "border"}));
  const PolicyScope inside(nullptr);
  const DType dtype = arguments::statistics_dtype(given);
  const Tensor x = cast(given, dtype), places = flatten(cast(grid, dtype), 1, 2);
  const Tensor column = pixels(select(places, 2, 0), x.size(3), options);
  const Tensor row = pixels(select(places, 2, 1), x.size(2), options);
  const Tensor y = options.mode == "nearest"
                       ? values_at(x, round(row.detach()), round(column.detach()))
                       : between_neighbours(x, row, column);
  return cast(unflatten(y, 2, {grid.size(1), grid.size(2)}), given.dtype());
}

Tensor affine_grid(const Tensor& theta, Size2d size, bool align_corners) {
  arguments::floating("affine_grid", "theta", theta);
  if (theta.ndim() != 3 || theta.size(1) != 2 || theta.size(2) != 3)
    fail("affine_grid: theta has the wrong shape; got {}, want (n, 2, 3)", theta.shape());
  check(size.height > 0 && size.width > 0, "affine_grid: a side is empty; got ({}, {})",
        size.height, size.width);
  const TensorOptions like = {theta.dtype(), theta.device()};
  const auto side = [&](int64_t n) {
    const auto count = static_cast<double>(n);
    const double edge = n == 1 ? 0 : align_corners ? 1 : (count - 1) / count;
    return linspace(-edge, edge, n, like);
  };
  const auto places = meshgrid({side(size.height), side(size.width)});
  const Tensor base = stack({places[1], places[0], ones({size.height, size.width}, like)}, -1);
  const Tensor grid = matmul(reshape(base, {-1, 3}), transpose(theta, 1, 2));
  return reshape(grid, {theta.size(0), size.height, size.width, 2});
}

}  // namespace booster
