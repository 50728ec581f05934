// Images of other sizes, of the same numbers.
#include "core/nn/functional.h"
#include "core/nn/functional/arguments.h"

#include "core/autograd/op_policy.h"

namespace booster {
namespace {

// Which of `in` places each of `out` places takes its value from.
Tensor nearest(int64_t in, int64_t out, Device device) {
  std::vector<int64_t> places(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) places[static_cast<size_t>(i)] = i * in / out;
  return from_vector(places, {out}).to(device);
}

void check_images(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  check(x.ndim() == 4, "{}: wrong number of dimensions; got {}, want (n, channels, h, w)", op,
        x.shape());
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_images("pixel_shuffle", x);
  check(factor >= 1 && x.size(1) % (factor * factor) == 0,
        "pixel_shuffle: the channels are no multiple of factor^2; got {} channels and factor {}",
        x.size(1), factor);
  const int64_t n = x.size(0), c = x.size(1) / (factor * factor), h = x.size(2), w = x.size(3);
  const Tensor split = reshape(x, {n, c, factor, factor, h, w});
  return reshape(permute(split, {0, 1, 4, 2, 5, 3}), {n, c, h * factor, w * factor});
}

Tensor interpolate_nearest(const Tensor& x, Size2d size) {
  check_images("interpolate_nearest", x);
  check(size.height >= 1 && size.width >= 1 && x.size(2) >= 1 && x.size(3) >= 1,
        "interpolate_nearest: an image has no pixels; got {} to ({}, {})", x.shape(), size.height,
        size.width);
  const PolicyScope inside(nullptr);
  const Tensor rows = index_select(x, 2, nearest(x.size(2), size.height, x.device()));
  return index_select(rows, 3, nearest(x.size(3), size.width, x.device()));
}

}  // namespace booster
