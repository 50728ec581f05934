// Convolutions on a GPU: of patches as products of matrices, and others by cuDNN. Without it,
// products of tiles gather their operands in place, for every dtype, any strides and groups.
#include "kernels/catalogue.h"
#include "kernels/cuda/products/library_convolution.h"
#include "kernels/cuda/products/patch_convolution.h"
#include "kernels/cuda/products/tile_product.cuh"
#include "kernels/walks/row_sums.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Returns element (n, c, h, w) of a tensor.
template <class C>
__device__ C element(const View& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  return load_any<C>(x.data, x.dtype,
                     n * x.strides[0] + c * x.strides[1] + h * x.strides[2] + w * x.strides[3]);
}
template <class C>
__device__ void set_element(const View& y, int64_t n, int64_t c, int64_t h, int64_t w, C value) {
  store_any<C>(y.data, y.dtype,
               n * y.strides[0] + c * y.strides[1] + h * y.strides[2] + w * y.strides[3], value);
}

// Sizes of one group's convolution.
struct Shape {
  int64_t images, groups, channels, features;  // the last two of one group
  int64_t height, width, out_height, out_width;
  Window2d window;
  int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
};

Shape shape_of(const View& x, const View& weight, const View& y, const Window2d& window) {
  return {x.shape[0], window.groups, weight.shape[1], weight.shape[0] / window.groups,
          x.shape[2], x.shape[3],    y.shape[2],      y.shape[3],
          window};
}

// A number below channels * kernel height * kernel width, split into its parts.
struct Tap {
  int64_t channel, i, j;
  __device__ Tap(const Window2d& window, int64_t number)
      : channel(number / (window.kernel[0] * window.kernel[1])),
        i(number / window.kernel[1] % window.kernel[0]),
        j(number % window.kernel[1]) {}
};

// Returns the image element that a tap reads for an output's position; padding counts as 0.
template <class C>
__device__ C input_at(const View& x, const Shape& s, int64_t image, int64_t group, Tap tap,
                      int64_t row, int64_t column) {
  const Window2d& w = s.window;
  const int64_t h = row * w.stride[0] - w.padding[0] + tap.i * w.dilation[0];
  const int64_t v = column * w.stride[1] - w.padding[1] + tap.j * w.dilation[1];
  if (h < 0 || h >= s.height || v < 0 || v >= s.width) return C(0);
  return element<C>(x, image, group * s.channels + tap.channel, h, v);
}

// --- forward: features x (channels, taps) times (channels, taps) x places, per image and group
template <class C>
struct Filters {
  View weight;
  Shape s;
  static constexpr Along along = Along::depth;
  __device__ C operator()(int64_t batch, int64_t feature, int64_t number) const {
    const Tap tap(s.window, number);
    return element<C>(weight, batch % s.groups * s.features + feature, tap.channel, tap.i, tap.j);
  }
};
template <class C>
struct Patches {
  View x;
  Shape s;
  static constexpr Along along = Along::side;
  __device__ C operator()(int64_t batch, int64_t place, int64_t number) const {
    return input_at<C>(x, s, batch / s.groups, batch % s.groups, Tap(s.window, number),
                       place / s.out_width, place % s.out_width);
  }
};
template <class C>
struct Output {
  View y, bias;
  Shape s;
  __device__ void operator()(int64_t batch, int64_t feature, int64_t place, C sum) const {
    const int64_t channel = batch % s.groups * s.features + feature;
    if (bias.data) sum += load_any<C>(bias.data, bias.dtype, channel * bias.strides[0]);
    set_element(y, batch / s.groups, channel, place / s.out_width, place % s.out_width, sum);
  }
};

// --- input's gradient: channels x (features, taps) times (features, taps) x places of the image
template <class C>
struct TurnedFilters {
  View weight;
  Shape s;
  static constexpr Along along = Along::side;
  __device__ C operator()(int64_t batch, int64_t channel, int64_t number) const {
    const Tap tap(s.window, number);
    return element<C>(weight, batch % s.groups * s.features + tap.channel, channel, tap.i, tap.j);
  }
};
// The gradient at the output position whose tap reads a position of the image, if there is one.
template <class C>
struct Meetings {
  View g;
  Shape s;
  static constexpr Along along = Along::side;
  __device__ C operator()(int64_t batch, int64_t place, int64_t number) const {
    const Tap tap(s.window, number);
    const Window2d& w = s.window;
    const int64_t h = place / s.width + w.padding[0] - tap.i * w.dilation[0];
    const int64_t v = place % s.width + w.padding[1] - tap.j * w.dilation[1];
    if (h < 0 || v < 0 || h % w.stride[0] != 0 || v % w.stride[1] != 0) return C(0);
    const int64_t row = h / w.stride[0], column = v / w.stride[1];
    if (row >= s.out_height || column >= s.out_width) return C(0);
    return element<C>(g, batch / s.groups, batch % s.groups * s.features + tap.channel, row,
                      column);
  }
};
template <class C>
struct InputGradient {
  View dx;
  Shape s;
  __device__ void operator()(int64_t batch, int64_t channel, int64_t place, C sum) const {
    set_element(dx, batch / s.groups, batch % s.groups * s.channels + channel, place / s.width,
                place % s.width, sum);
  }
};

// --- weight's gradient: features x (images, places) times (images, places) x (channels, taps)
template <class C>
struct Gradients {
  View g;
  Shape s;
  static constexpr Along along = Along::depth;
  __device__ C operator()(int64_t group, int64_t feature, int64_t number) const {
    const int64_t places = s.out_height * s.out_width, place = number % places;
    return element<C>(g, number / places, group * s.features + feature, place / s.out_width,
                      place % s.out_width);
  }
};
template <class C>
struct PatchesOfAll {
  View x;
  Shape s;
  static constexpr Along along = Along::depth;
  __device__ C operator()(int64_t group, int64_t tap, int64_t number) const {
    const int64_t places = s.out_height * s.out_width, place = number % places;
    return input_at<C>(x, s, number / places, group, Tap(s.window, tap), place / s.out_width,
                       place % s.out_width);
  }
};
template <class C>
struct WeightGradient {
  View dweight;
  Shape s;
  __device__ void operator()(int64_t group, int64_t feature, int64_t number, C sum) const {
    const Tap tap(s.window, number);
    set_element(dweight, group * s.features + feature, tap.channel, tap.i, tap.j, sum);
  }
};

template <class C>
void sum_over_images(const View& dbias, const View& g) {
  for_each_block(g.shape[1], [=] ON_DEVICE(int64_t channel) {
    const int64_t width = g.shape[3], places = g.shape[2] * width;
    const C sum = sum_of<C>(g.shape[0] * places, [=](int64_t i) {
      return element<C>(g, i / places, channel, i % places / width, i % width);
    });
    if (first_lane()) store_any<C>(dbias.data, dbias.dtype, channel * dbias.strides[0], sum);
  });
}

}  // namespace

void conv2d(View y, View x, View weight, View bias, Window2d window) {
  if (is_patchwise(weight, window)) return patch_convolution(y, x, weight, bias, window);
  if (library_convolution(ConvolutionPass::forward, x, weight, y, bias, window)) return;
  const Shape s = shape_of(x, weight, y, window);
  visit_compute(x.dtype, [&]<class C>(C*) {
    tile_product<C>(
        {s.images * s.groups, s.features, s.out_height * s.out_width, s.channels * s.taps()},
        Filters<C>{weight, s}, Patches<C>{x, s}, Output<C>{y, bias, s});
  });
}

void conv2d_backward_input(View dx, View g, View weight, Window2d window) {
  if (is_patchwise(weight, window)) return patch_convolution_input(dx, g, weight, window);
  if (library_convolution(ConvolutionPass::input, dx, weight, g, {}, window)) return;
  const Shape s = shape_of(dx, weight, g, window);
  visit_compute(g.dtype, [&]<class C>(C*) {
    tile_product<C>({s.images * s.groups, s.channels, s.height * s.width, s.features * s.taps()},
                    TurnedFilters<C>{weight, s}, Meetings<C>{g, s}, InputGradient<C>{dx, s});
  });
}

void conv2d_backward_weight(View dweight, View dbias, View g, View x, Window2d window) {
  if (is_patchwise(dweight, window)) return patch_convolution_weight(dweight, dbias, g, x, window);
  const Shape s = shape_of(x, dweight, g, window);
  const bool is_done = library_convolution(ConvolutionPass::weight, x, dweight, g, {}, window);
  visit_compute(g.dtype, [&]<class C>(C*) {
    if (!is_done)
      tile_product<C>(
          {s.groups, s.features, s.channels * s.taps(), s.images * s.out_height * s.out_width},
          Gradients<C>{g, s}, PatchesOfAll<C>{x, s}, WeightGradient<C>{dweight, s});
    if (dbias.data) sum_over_images<C>(dbias, g);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
