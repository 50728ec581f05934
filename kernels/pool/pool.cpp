// Pooling over planes of (n, c, h, w): maximum and mean of windows. Each plane is one block of work
// and is converted to the compute type once.
#include "kernels/pool/pixels.h"
#include "kernels/pool/windows.h"
#include "kernels/walks/row_sums.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch input_buffer, output_buffer;

int64_t planes_of(const View& x) { return x.shape[0] * x.shape[1]; }

// Computes y = mean of x over the windows range(axis, i).
template <class C, class Ranges>
void average_plane(C* y, const C* x, Plane out, Plane in, Ranges&& range) {
  for (int64_t i = 0; i < out.height; ++i)
    for (int64_t j = 0; j < out.width; ++j) {
      const Range rows = range(0, i), columns = range(1, j);
      C sum = 0;
      if (columns.end - columns.begin == in.width) {
        sum = row_sum(x + rows.begin * in.width, (rows.end - rows.begin) * in.width);
      } else {
        for (int64_t h = rows.begin; h < rows.end; ++h)
          for (int64_t w = columns.begin; w < columns.end; ++w) sum += x[h * in.width + w];
      }
      y[i * out.width + j] = sum / C(rows.count * columns.count);
    }
}

// Spreads each element of g evenly over its window of dx, which must start at zero.
template <class C, class Ranges>
void spread_plane(C* dx, const C* g, Plane out, Plane in, Ranges&& range) {
  for (int64_t i = 0; i < in.size(); ++i) dx[i] = C(0);
  for (int64_t i = 0; i < out.height; ++i)
    for (int64_t j = 0; j < out.width; ++j) {
      const Range rows = range(0, i), columns = range(1, j);
      const C share = g[i * out.width + j] / C(rows.count * columns.count);
      for (int64_t h = rows.begin; h < rows.end; ++h)
        for (int64_t w = columns.begin; w < columns.end; ++w) dx[h * in.width + w] += share;
    }
}

// Returns true if windows have one element and are all inside. Pooling then picks every stride-th
// element, as in the shortcuts of ResNet-20 (0.7 ms of its step in bf16; 3.9 ms as windows).
bool picks(const Window2d& window) {
  return window.kernel[0] == 1 && window.kernel[1] == 1 && !window.padding[0] && !window.padding[1];
}

// Calls body(position in the smaller plane, position in the larger one) for each element picked.
template <class Body>
KERNEL_FN void for_each_picked(Plane out, Plane in, const Window2d& window, Body&& body) {
  for (int64_t i = 0; i < out.height; ++i)
    for (int64_t j = 0; j < out.width; ++j)
      body(i * out.width + j, i * window.stride[0] * in.width + j * window.stride[1]);
}

// Calls plane_kernel(to, from) for each plane, in the compute type.
template <class PlaneKernel>
void for_each_plane(const View& out, const View& in, PlaneKernel&& plane_kernel) {
  const int64_t out_size = plane_of(out).size(), in_size = plane_of(in).size();
  visit_compute(in.dtype, [&]<class C>(C*) {
    for_each_range(planes_of(in), grain_for(out_size + in_size), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const C* from = read_row(in, plane * in_size, in_size, input_buffer.get<C>(in_size));
        C* to = row_target(out, plane * out_size, output_buffer.get<C>(out_size));
        plane_kernel(plane, to, from);
        write_row(out, plane * out_size, out_size, to);
      }
    });
  });
}

// Returns the offset in the plane of the largest element under the window at (i, j), the first of
// equal ones. A nan counts as the largest, as in PyTorch.
template <class C>
int64_t largest_in_window(const C* x, Plane in, const Window2d& window, int64_t i, int64_t j) {
  const Places places = places_under(window, i, j, in);
  int64_t best = places.rows.begin * in.width + places.columns.begin;
  for_each_place(places, [&](int64_t h, int64_t w) {
    const C value = x[h * in.width + w];
    if (value > x[best] || value != value) best = h * in.width + w;
  });
  return best;
}

}  // namespace

void max_pool2d(View y, View index, View x, Window2d window) {
  if (lies_by_pixels(x)) return max_pool_pixels(y, index, x, window);
  const Plane out = plane_of(y), in = plane_of(x);
  for_each_plane(y, x, [&](int64_t plane, auto* to, const auto* from) {
    int64_t* places = index.as<int64_t>() + plane * out.size();
    for (int64_t i = 0; i < out.height; ++i)
      for (int64_t j = 0; j < out.width; ++j) {
        const int64_t best = largest_in_window(from, in, window, i, j);
        places[i * out.width + j] = best;
        to[i * out.width + j] = from[best];
      }
  });
}

void max_pool2d_backward(View dx, View g, View index) {
  if (lies_by_pixels(dx)) return max_pool_pixels_backward(dx, g, index);
  const int64_t in_size = plane_of(dx).size(), out_size = plane_of(g).size();
  for_each_plane(dx, g, [&](int64_t plane, auto* to, const auto* from) {
    const int64_t* places = index.as<const int64_t>() + plane * out_size;
    for (int64_t i = 0; i < in_size; ++i) to[i] = 0;
    for (int64_t i = 0; i < out_size; ++i) to[places[i]] += from[i];
  });
}

void avg_pool2d(View y, View x, Window2d window, bool count_padding) {
  const Plane out = plane_of(y), in = plane_of(x);
  const auto range = [&](int axis, int64_t i) {
    return window_range(i, window, axis, axis ? in.width : in.height, count_padding);
  };
  if (lies_by_pixels(x)) return average_pixels(y, x, range);
  for_each_plane(y, x, [&](int64_t, auto* to, const auto* from) {
    if (picks(window))
      return for_each_picked(out, in, window, [=](int64_t i, int64_t j) { to[i] = from[j]; });
    average_plane(to, from, out, in, range);
  });
}

void avg_pool2d_backward(View dx, View g, Window2d window, bool count_padding) {
  const Plane out = plane_of(g), in = plane_of(dx);
  const auto range = [&](int axis, int64_t i) {
    return window_range(i, window, axis, axis ? in.width : in.height, count_padding);
  };
  if (lies_by_pixels(dx)) return spread_pixels(dx, g, range);
  for_each_plane(dx, g, [&](int64_t, auto* to, const auto* from) {
    if (picks(window)) {
      for (int64_t i = 0; i < in.size(); ++i) to[i] = 0;
      return for_each_picked(out, in, window, [=](int64_t i, int64_t j) { to[j] = from[i]; });
    }
    spread_plane(to, from, out, in, range);
  });
}

void adaptive_avg_pool2d(View y, View x) {
  const Plane out = plane_of(y), in = plane_of(x);
  const auto range = [&](int axis, int64_t i) {
    return axis ? adaptive_range(i, out.width, in.width)
                : adaptive_range(i, out.height, in.height);
  };
  if (lies_by_pixels(x)) return average_pixels(y, x, range);
  for_each_plane(y, x, [&](int64_t, auto* to, const auto* from) {
    average_plane(to, from, out, in, range);
  });
}

void adaptive_avg_pool2d_backward(View dx, View g) {
  const Plane out = plane_of(g), in = plane_of(dx);
  const auto range = [&](int axis, int64_t i) {
    return axis ? adaptive_range(i, out.width, in.width)
                : adaptive_range(i, out.height, in.height);
  };
  if (lies_by_pixels(dx)) return spread_pixels(dx, g, range);
  for_each_plane(dx, g, [&](int64_t, auto* to, const auto* from) {
    spread_plane(to, from, out, in, range);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
