// Windows of images as columns, channels as pixels, and what is written back by position.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/nn/functional/window.h"

#include <cmath>

namespace booster {
namespace {

void check_four(const char* op, const char* want, const Tensor& x) {
  arguments::floating(op, "x", x);
  if (x.ndim() != 4) fail("{}: wrong number of dimensions; got {}, want {}", op, x.shape(), want);
}

}  // namespace

Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  check_four("pixel_unshuffle", "(n, channels, h factor, w factor)", x);
  if (factor < 1 || x.size(2) % factor != 0 || x.size(3) % factor != 0)
    fail("pixel_unshuffle: the factor does not divide the sides; got {} for {}", factor, x.shape());
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2) / factor, w = x.size(3) / factor;
  const Tensor split = reshape(x, {n, c, h, factor, w, factor});
  return reshape(permute(split, {0, 1, 3, 5, 2, 4}), {n, c * factor * factor, h, w});
}

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  check(x.defined(), "channel_shuffle: x is undefined");
  if (x.ndim() < 3 || groups < 1 || x.size(1) % groups != 0)
    fail(
        "channel_shuffle: groups do not divide the channels; got {} of {}, want (n, channels, "
        "...)",
        groups, x.shape());
  const Tensor split = unflatten(x, 1, {groups, x.size(1) / groups});
  return reshape(transpose(split, 1, 2), x.shape());
}

Tensor unfold(const Tensor& x, Size2d kernel, WindowOptions o) {
  check_four("unfold", "(n, channels, h, w)", x);
  const kernels::Window2d window = window_of(kernel, o.stride, o.padding, o.dilation, 1);
  const Size2d size = output_size("unfold", x, window);
  const PolicyScope inside(nullptr);
  const Tensor padded =
      pad(x, {o.padding.width, o.padding.width, o.padding.height, o.padding.height});
  std::vector<Tensor> places;
  for (int64_t i = 0; i < kernel.height; ++i) {
    const int64_t top = i * o.dilation.height;
    const Tensor rows =
        slice(padded, 2, top, top + (size.height - 1) * o.stride.height + 1, o.stride.height);
    for (int64_t j = 0; j < kernel.width; ++j) {
      const int64_t left = j * o.dilation.width;
      places.push_back(
          slice(rows, 3, left, left + (size.width - 1) * o.stride.width + 1, o.stride.width));
    }
  }
  return reshape(stack(places, 2),
                 {x.size(0), x.size(1) * kernel.height * kernel.width, size.height * size.width});
}

Tensor fold(const Tensor& columns, Size2d size, Size2d kernel, WindowOptions o) {
  arguments::floating("fold", "columns", columns);
  const int64_t area = kernel.height * kernel.width;
  if (columns.ndim() != 3 || area < 1 || columns.size(1) % area != 0)
    fail("fold: columns have the wrong shape; got {}, want (n, channels {}, windows)",
         columns.shape(), area);
  const PolicyScope inside(nullptr);
  const int64_t n = columns.size(0), c = columns.size(1) / area;
  const kernels::Window2d window = window_of(kernel, o.stride, o.padding, o.dilation, 1);
  const Size2d windows = output_size("fold", zeros({1, 1, size.height, size.width}), window);
  check(columns.size(2) == windows.height * windows.width,
        "fold: wrong number of windows; got {}, want {} x {}", columns.size(2), windows.height,
        windows.width);
  const int64_t height = size.height + 2 * o.padding.height,
                width = size.width + 2 * o.padding.width;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kernel.height; ++i)
    for (int64_t j = 0; j < kernel.width; ++j)
      for (int64_t h = 0; h < windows.height; ++h)
        for (int64_t w = 0; w < windows.width; ++w)
          places.push_back((h * o.stride.height + i * o.dilation.height) * width +
                           w * o.stride.width + j * o.dilation.width);
  const auto count = static_cast<int64_t>(places.size());
  const Tensor wide = cast(columns, arguments::statistics_dtype(columns));
  const Tensor flat = zeros({n, c, height * width}, {wide.dtype(), wide.device()});
  const Tensor sums = index_add(flat, 2, from_vector(places, {count}).to(wide.device()),
                                reshape(wide, {n, c, count}));
  const Tensor image =
      narrow(reshape(sums, {n, c, height, width}), 2, o.padding.height, size.height);
  return cast(contiguous(narrow(image, 3, o.padding.width, size.width)), columns.dtype());
}

Tensor max_unpool2d(const Tensor& x, const Tensor& index, Size2d size) {
  check_four("max_unpool2d", "(n, channels, h, w)", x);
  check(index.defined() && index.shape() == x.shape(),
        "max_unpool2d: the index has the wrong shape; got {}, want {}",
        index.defined() ? index.shape() : Shape{}, x.shape());
  const PolicyScope inside(nullptr);
  const Tensor flat =
      zeros({x.size(0), x.size(1), size.height * size.width}, {x.dtype(), x.device()});
  return unflatten(scatter(flat, 2, flatten(index, 2), flatten(x, 2)), 2,
                   {size.height, size.width});
}

namespace {

// Returns (sum of x^p)^(1 / p) over windows of `elements`. As in torch, the sign of a sum stays
// outside of the root.
template <class Average>
Tensor lp_pool(const char* op, const Tensor& x, double p, int64_t elements, Average average) {
  check(p != 0, "{}: p is 0; want another number", op);
  const PolicyScope inside(nullptr);
  const Tensor means = average(pow(cast(x, arguments::statistics_dtype(x)), p));
  const Tensor sums = sign(means.detach()) * relu(abs(means)) * static_cast<double>(elements);
  return cast(pow(sums, 1 / p), x.dtype());
}

}  // namespace

Tensor lp_pool2d(const Tensor& x, double p, Size2d kernel, PoolOptions options) {
  check_four("lp_pool2d", "(n, channels, h, w)", x);
  return lp_pool("lp_pool2d", x, p, kernel.height * kernel.width,
                 [&](const Tensor& powers) { return avg_pool2d(powers, kernel, options); });
}

Tensor lp_pool3d(const Tensor& x, double p, Size3d kernel, Pool3dOptions options) {
  return lp_pool("lp_pool3d", x, p, kernel.depth * kernel.height * kernel.width,
                 [&](const Tensor& powers) { return avg_pool3d(powers, kernel, options); });
}

}  // namespace booster
