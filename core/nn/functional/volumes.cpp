// Convolutions, transposed convolutions and pooling of signals (n, channels, length) and volumes
// (n, channels, d, h, w). They call the functions of images. Also adaptive maximum pooling.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

namespace booster {
namespace {

void check_signal(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  if (x.ndim() != 3)
    fail("{}: wrong number of dimensions; got {}, want (n, channels, length)", op, x.shape());
}

void check_volume(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  if (x.ndim() != 5)
    fail("{}: wrong number of dimensions; got {}, want (n, channels, d, h, w)", op, x.shape());
}

// Returns the options of a pool of images of height 1.
PoolOptions flat_options(const Pool1dOptions& o) {
  PoolOptions flat = {.padding = {0, o.padding},
                      .count_padding = o.count_padding,
                      .dilation = {1, o.dilation},
                      .ceil_mode = o.ceil_mode};
  if (o.stride) flat.stride = Size2d(1, *o.stride);
  return flat;
}

// Returns pool(x) of planes, then of depths: a volume's pool is one along each dimension.
template <class Pool>
Tensor plane_by_plane(const Tensor& x, Size3d kernel, const Pool3dOptions& o, Pool pool) {
  PoolOptions planes = {.padding = {o.padding.height, o.padding.width},
                        .count_padding = o.count_padding,
                        .dilation = {o.dilation.height, o.dilation.width},
                        .ceil_mode = o.ceil_mode};
  PoolOptions depths = {.padding = {o.padding.depth, 0},
                        .count_padding = o.count_padding,
                        .dilation = {o.dilation.depth, 1},
                        .ceil_mode = o.ceil_mode};
  if (o.stride) {
    planes.stride = Size2d(o.stride->height, o.stride->width);
    depths.stride = Size2d(o.stride->depth, 1);
  }
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2);
  const Tensor y = pool(reshape(x, {n, c * d, x.size(3), x.size(4)}),
                        Size2d(kernel.height, kernel.width), planes);
  const int64_t h = y.size(2), w = y.size(3);
  const Tensor z = pool(reshape(y, {n, c, d, h * w}), Size2d(kernel.depth, 1), depths);
  return reshape(z, {n, c, z.size(2), h, w});
}

// Returns the largest value of each window along dimension d, with the windows of
// adaptive_avg_pool2d.
Tensor largest_along(const char* op, const Tensor& x, int d, int64_t windows) {
  const int64_t size = x.size(d);
  check(windows > 0 && size > 0, "{}: a side is empty; got {} to {}", op, size, windows);
  std::vector<Tensor> largest;
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t begin = i * size / windows, end = ((i + 1) * size + windows - 1) / windows;
    largest.push_back(max(narrow(x, d, begin, end - begin), d, true).first);
  }
  return cat(largest, d);
}

void check_conv3d(const Tensor& x, const Tensor& weight, const Conv3dOptions& o) {
  check_volume("conv3d", x);
  arguments::floating("conv3d", "weight", weight);
  if (weight.ndim() != 5)
    fail("conv3d: weight has the wrong shape; got {}, want (out, channels / groups, kd, kh, kw)",
         weight.shape());
  check(o.stride.depth > 0 && o.dilation.depth > 0 && o.padding.depth >= 0,
        "conv3d: wrong window; got stride {}, dilation {}, padding {}, want positive numbers",
        o.stride.depth, o.dilation.depth, o.padding.depth);
  const int64_t reach = o.dilation.depth * (weight.size(2) - 1) + 1;
  check(x.size(2) + 2 * o.padding.depth >= reach,
        "conv3d: window is larger than the volume; got {} of {} with padding {}", reach, x.size(2),
        o.padding.depth);
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv3dOptions o) {
  check_conv3d(x, weight, o);
  const Tensor padded =
      o.padding.depth > 0 ? pad(x, {0, 0, 0, 0, o.padding.depth, o.padding.depth}) : x;
  const int64_t n = x.size(0), step = o.stride.depth;
  const int64_t reach = o.dilation.depth * (weight.size(2) - 1) + 1;
  const int64_t planes = (padded.size(2) - reach) / step + 1;
  Tensor y;
  for (int64_t k = 0; k < weight.size(2); ++k) {
    const int64_t start = k * o.dilation.depth;
    const Tensor read = slice(padded, 2, start, start + (planes - 1) * step + 1, step);
    const Tensor images =
        reshape(transpose(read, 1, 2), {n * planes, x.size(1), x.size(3), x.size(4)});
    const Tensor part = conv2d(images, select(weight, 2, k), k == 0 ? bias : Tensor(),
                               {.stride = {o.stride.height, o.stride.width},
                                .padding = {o.padding.height, o.padding.width},
                                .dilation = {o.dilation.height, o.dilation.width},
                                .groups = o.groups});
    y = y.defined() ? y + part : part;
  }
  return transpose(reshape(y, {n, planes, y.size(1), y.size(2), y.size(3)}), 1, 2);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions o,
                        int64_t output_padding) {
  check_signal("conv_transpose1d", x);
  if (!weight.defined() || weight.ndim() != 3)
    fail(
        "conv_transpose1d: weight has the wrong shape; got {}, want (channels, out / groups, "
        "kernel)",
        weight.defined() ? weight.shape() : Shape{});
  const Tensor y = conv_transpose2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                                    {.stride = {1, o.stride},
                                     .padding = {0, o.padding},
                                     .output_padding = {0, output_padding},
                                     .dilation = {1, o.dilation},
                                     .groups = o.groups});
  return squeeze(y, 2);
}

// Adds up a conv_transpose2d for each plane of the kernel, at the depths that the plane reaches.
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv3dOptions o,
                        Size3d output_padding) {
  check_volume("conv_transpose3d", x);
  if (!weight.defined() || weight.ndim() != 5)
    fail(
        "conv_transpose3d: weight has the wrong shape; got {}, want (channels, out / groups, kd, "
        "kh, kw)",
        weight.defined() ? weight.shape() : Shape{});
  const int64_t n = x.size(0), depth = x.size(2), step = o.stride.depth, cut = o.padding.depth;
  const int64_t more = output_padding.depth, dilation = o.dilation.depth;
  check(
      step > 0 && dilation > 0 && cut >= 0 && more >= 0 && (more < step || more < dilation),
      "conv_transpose3d: wrong window; got stride {}, dilation {}, padding {}, output_padding {}, "
      "want positive numbers, and output_padding less than stride or dilation",
      step, dilation, cut, more);
  const int64_t reach = (depth - 1) * step + 1;  // of one plane of the kernel
  const int64_t whole = reach + dilation * (weight.size(2) - 1) + more;
  check(whole > 2 * cut, "conv_transpose3d: padding removes the whole depth of {}; got {}", depth,
        cut);
  const Tensor images = reshape(transpose(x, 1, 2), {n * depth, x.size(1), x.size(3), x.size(4)});
  Tensor y;
  for (int64_t k = 0; k < weight.size(2); ++k) {
    const Tensor part =
        conv_transpose2d(images, select(weight, 2, k), {},
                         {.stride = {o.stride.height, o.stride.width},
                          .padding = {o.padding.height, o.padding.width},
                          .output_padding = {output_padding.height, output_padding.width},
                          .dilation = {o.dilation.height, o.dilation.width},
                          .groups = o.groups});
    const int64_t c = part.size(1), h = part.size(2), w = part.size(3);
    const Tensor planes = reshape(part, {n, depth, 1, c, h, w});
    const Tensor spread =
        reshape(pad(planes, {0, 0, 0, 0, 0, 0, 0, step - 1}), {n, depth * step, c, h, w});
    const int64_t before = k * dilation;
    const Tensor placed =
        pad(narrow(spread, 1, 0, reach), {0, 0, 0, 0, 0, 0, before, whole - reach - before});
    y = y.defined() ? y + placed : placed;
  }
  y = transpose(narrow(y, 1, cut, whole - 2 * cut), 1, 2);
  return bias.defined() ? y + reshape(cast(bias, y.dtype()), {-1, 1, 1, 1}) : y;
}

Tensor max_pool1d(const Tensor& x, int64_t kernel, Pool1dOptions options) {
  check_signal("max_pool1d", x);
  return squeeze(max_pool2d(unsqueeze(x, 2), {1, kernel}, flat_options(options)), 2);
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel, Pool1dOptions options) {
  check_signal("avg_pool1d", x);
  return squeeze(avg_pool2d(unsqueeze(x, 2), {1, kernel}, flat_options(options)), 2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t size) {
  check_signal("adaptive_avg_pool1d", x);
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, 2), {1, size}), 2);
}

Tensor adaptive_max_pool1d(const Tensor& x, int64_t size) {
  check_signal("adaptive_max_pool1d", x);
  return largest_along("adaptive_max_pool1d", x, 2, size);
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2d size) {
  arguments::floating("adaptive_max_pool2d", "x", x);
  if (x.ndim() != 4)
    fail("adaptive_max_pool2d: wrong number of dimensions; got {}, want (n, c, h, w)", x.shape());
  const Tensor rows = largest_along("adaptive_max_pool2d", x, 3, size.width);
  return largest_along("adaptive_max_pool2d", rows, 2, size.height);
}

Tensor max_pool3d(const Tensor& x, Size3d kernel, Pool3dOptions options) {
  check_volume("max_pool3d", x);
  return plane_by_plane(x, kernel, options, max_pool2d);
}

// The position of a maximum over depths says in which plane to look up its position.
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& x, Size3d kernel,
                                                  Pool3dOptions options) {
  check_volume("max_pool3d", x);
  std::vector<Tensor> indices;
  const Tensor y = plane_by_plane(
      x, kernel, options, [&](const Tensor& images, Size2d window, const PoolOptions& o) {
        auto [largest, index] = max_pool2d_with_indices(images, window, o);
        indices.push_back(index);
        return largest;
      });
  const int64_t n = x.size(0), c = x.size(1), area = y.size(3) * y.size(4);
  const Tensor of_planes = reshape(indices[0], {n, c, x.size(2) * area});
  const Tensor of_depths = reshape(indices[1], {n, c, y.size(2) * area});
  const Tensor plane = floor_divide(of_depths, scalar(double(area), {DType::i64, x.device()}));
  const Tensor place = gather(of_planes, 2, of_depths);
  return {y, reshape(plane * double(x.size(3) * x.size(4)) + place, y.shape())};
}

Tensor max_unpool3d(const Tensor& x, const Tensor& index, Size3d size) {
  check_volume("max_unpool3d", x);
  check(index.defined() && index.shape() == x.shape(),
        "max_unpool3d: the index has the wrong shape; got {}, want {}",
        index.defined() ? index.shape() : Shape{}, x.shape());
  const PolicyScope inside(nullptr);
  const Tensor flat =
      zeros({x.size(0), x.size(1), size.depth * size.height * size.width}, {x.dtype(), x.device()});
  return unflatten(scatter(flat, 2, flatten(index, 2), flatten(x, 2)), 2,
                   {size.depth, size.height, size.width});
}

Tensor avg_pool3d(const Tensor& x, Size3d kernel, Pool3dOptions options) {
  check_volume("avg_pool3d", x);
  return plane_by_plane(x, kernel, options, avg_pool2d);
}

Tensor adaptive_avg_pool3d(const Tensor& x, Size3d size) {
  check_volume("adaptive_avg_pool3d", x);
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), area = size.height * size.width;
  const Tensor planes =
      adaptive_avg_pool2d(reshape(x, {n, c * d, x.size(3), x.size(4)}), {size.height, size.width});
  return reshape(adaptive_avg_pool2d(reshape(planes, {n, c, d, area}), {size.depth, area}),
                 {n, c, size.depth, size.height, size.width});
}

Tensor adaptive_max_pool3d(const Tensor& x, Size3d size) {
  check_volume("adaptive_max_pool3d", x);
  Tensor y = largest_along("adaptive_max_pool3d", x, 4, size.width);
  y = largest_along("adaptive_max_pool3d", y, 3, size.height);
  return largest_along("adaptive_max_pool3d", y, 2, size.depth);
}

}  // namespace booster
