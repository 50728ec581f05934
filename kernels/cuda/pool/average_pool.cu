// Means of windows. In the backward pass, each element of dx adds its shares of the windows that
// contain it, in their order.
#include "kernels/catalogue.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/pool/plane.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Windows of a given size and stride, or (adaptive) as many as the smaller plane has elements.
struct Windows {
  Plane out, in;
  bool adaptive = false;
  Window2d window = {};
  bool count_padding = false;

  KERNEL_FN int64_t extent(int axis) const { return axis ? in.width : in.height; }
  KERNEL_FN int64_t number(int axis) const { return axis ? out.width : out.height; }

  // Returns the positions under window i of an axis.
  KERNEL_FN Range range(int axis, int64_t i) const {
    const int64_t n = extent(axis), padding = window.padding[axis];
    if (adaptive) {
      const int64_t begin = quotient(i * n, number(axis));
      const int64_t end = quotient((i + 1) * n + number(axis) - 1, number(axis));
      return {begin, end, end - begin};
    }
    const int64_t start = i * window.stride[axis] - padding, stop = start + window.kernel[axis];
    const int64_t begin = larger(start, 0), end = smaller(stop, n);
    return {begin, end, count_padding ? smaller(stop, n + padding) - start : end - begin};
  }
  // Returns the windows that contain position i of an axis.
  KERNEL_FN Range containing(int axis, int64_t i) const {
    const int64_t windows = number(axis), n = extent(axis);
    if (adaptive) {
      const int64_t last = quotient((i + 1) * windows - 1, n);
      return {quotient(i * windows, n), smaller(last + 1, windows), 0};
    }
    const int64_t stride = window.stride[axis], at = i + window.padding[axis];
    const int64_t before = larger(at - window.kernel[axis] + stride, 0);
    return {quotient(before, stride), smaller(quotient(at, stride) + 1, windows), 0};
  }
  // Returns approximately how many positions a window has.
  int64_t area() const {
    if (!adaptive) return window.kernel[0] * window.kernel[1];
    return out.size() ? in.size() / out.size() : 0;
  }
};

// Returns the sum over a window's positions lane, lane + lanes, ...
template <class C, class T>
__device__ C sum_of_window(const T* x, const Plane& in, const Range& rows, const Range& columns,
                           int64_t lane, int64_t lanes) {
  C sum = 0;
  const int64_t width = columns.end - columns.begin;
  if (width <= 0) return sum;
  int64_t row = rows.begin + quotient(lane, width);
  int64_t column = columns.begin + lane - (row - rows.begin) * width;
  while (row < rows.end) {
    sum += load<C>(x + row * in.width + column);
    for (column += lanes; column >= columns.end; column -= width) ++row;
  }
  return sum;
}

// Averages windows; with lanes = 32 each window has a warp.
void average(const View& y, const View& x, const Windows& windows) {
  const int64_t lanes = windows.area() < 64 ? 1 : warp_size;
  for_each_item(y.size() * lanes, [=] ON_DEVICE(int64_t item) {
    const int64_t i = quotient(item, lanes);
    const Place at = place_of(windows.out, i);
    const Range rows = windows.range(0, at.row), columns = windows.range(1, at.column);
    visit_floating(x.dtype, [&]<class T>(T*) {
      using C = ComputeOf<T>;
      const T* from = static_cast<const T*>(x.data) + at.plane * windows.in.size();
      C sum = sum_of_window<C>(from, windows.in, rows, columns, item - i * lanes, lanes);
      if (lanes > 1) sum = fold_warp(sum, [](C a, C b) { return a + b; });
      if (item == i * lanes) store_any<C>(y.data, y.dtype, i, sum / C(rows.count * columns.count));
    });
  });
}

void spread(const View& dx, const View& g, const Windows& windows) {
  for_each_item(dx.size(), [=] ON_DEVICE(int64_t i) {
    const Place at = place_of(windows.in, i);
    const Range rows = windows.containing(0, at.row);
    const Range columns = windows.containing(1, at.column);
    visit_floating(g.dtype, [&]<class T>(T*) {
      using C = ComputeOf<T>;
      const T* from = static_cast<const T*>(g.data) + at.plane * windows.out.size();
      C sum = 0;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t height = windows.range(0, row).count;
        for (int64_t column = columns.begin; column < columns.end; ++column) {
          const int64_t count = height * windows.range(1, column).count;
          sum += load<C>(from + row * windows.out.width + column) / C(count);
        }
      }
      store_any<C>(dx.data, dx.dtype, i, sum);
    });
  });
}

}  // namespace

void avg_pool2d(View y, View x, Window2d window, bool count_padding) {
  average(y, x, {plane_of(y), plane_of(x), false, window, count_padding});
}

void avg_pool2d_backward(View dx, View g, Window2d window, bool count_padding) {
  spread(dx, g, {plane_of(g), plane_of(dx), false, window, count_padding});
}

void adaptive_avg_pool2d(View y, View x) {
  average(y, x, {plane_of(y), plane_of(x), true, {}, false});
}

void adaptive_avg_pool2d_backward(View dx, View g) {
  spread(dx, g, {plane_of(g), plane_of(dx), true, {}, false});
}

}  // namespace booster::kernels::BOOSTER_VARIANT
