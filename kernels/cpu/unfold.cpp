#include "kernels/cpu/unfold.h"

#include "kernels/catalogue.h"
#include "kernels/cpu/primitive.h"
#include "platform/error.h"

#include <algorithm>

namespace booster::kernels::cpu {

namespace {

// One image of one group: `channels` planes and the windows that slide over them.
struct Windows {
  int64_t channels, height, width, out_height, out_width;
  Window2d window;

  int64_t rows() const { return channels * window.kernel[0] * window.kernel[1]; }
  int64_t columns() const { return out_height * out_width; }

  // Calls body(row, column, element) for every position of a window that is inside the image.
  template <class Body>
  void for_each(Body&& body) const {
#pragma omp parallel for schedule(static)
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t ky = 0; ky < window.kernel[0]; ++ky)
        for (int64_t kx = 0; kx < window.kernel[1]; ++kx) for_each_place(channel, ky, kx, body);
  }

 private:
  template <class Body>
  void for_each_place(int64_t channel, int64_t ky, int64_t kx, Body&& body) const {
    const int64_t row = (channel * window.kernel[0] + ky) * window.kernel[1] + kx;
    for (int64_t oy = 0; oy < out_height; ++oy) {
      const int64_t y = oy * window.stride[0] - window.padding[0] + ky * window.dilation[0];
      if (y < 0 || y >= height) continue;
      for (int64_t ox = 0; ox < out_width; ++ox) {
        const int64_t x = ox * window.stride[1] - window.padding[1] + kx * window.dilation[1];
        if (x < 0 || x >= width) continue;
        body(row, oy * out_width + ox, (channel * height + y) * width + x);
      }
    }
  }
};

Windows windows_of(const View& x, const View& y, const Window2d& window) {
  return {x.shape[1] / window.groups, x.shape[2], x.shape[3], y.shape[2], y.shape[3], window};
}

View matrix(void* data, DType dtype, int64_t rows, int64_t columns) {
  return {
      .data = data, .dtype = dtype, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

// Return matrices of one image and group; everything is contiguous.
View planes_of(const View& x, int64_t image, int64_t group, int64_t groups) {
  const int64_t channels = x.shape[1] / groups, plane = x.shape[2] * x.shape[3];
  const int64_t offset = (image * groups + group) * channels * plane;
  return matrix(x.as<char>() + offset * size_of(x.dtype), x.dtype, channels, plane);
}
View weight_of(const View& weight, int64_t group, int64_t groups) {
  const int64_t outputs = weight.shape[0] / groups;
  const int64_t row = weight.shape[1] * weight.shape[2] * weight.shape[3];
  return matrix(weight.as<char>() + group * outputs * row * size_of(weight.dtype), weight.dtype,
                outputs, row);
}
View columns_for(const Windows& windows, DType dtype) {
  View columns = matrix(nullptr, dtype, windows.rows(), windows.columns());
  columns.data = scratch(ScratchUse::columns, columns.size() * size_of(dtype));
  return columns;
}

template <class T>
void unfold(const Windows& windows, const View& columns, const View& planes) {
  T* to = columns.as<T>();
  const T* from = planes.as<T>();
  const int64_t width = windows.columns();
  std::fill_n(to, columns.size(), T(0));
  windows.for_each([=](int64_t row, int64_t column, int64_t element) {
    to[row * width + column] = from[element];
  });
}

// Computes the adjoint of unfold; `planes` starts at zero. Windows of a channel access only its own
// plane.
template <class T>
void fold(const Windows& windows, const View& planes, const View& columns) {
  const T* from = columns.as<T>();
  T* to = planes.as<T>();
  const int64_t width = windows.columns();
  std::fill_n(to, planes.size(), T(0));
  windows.for_each([=](int64_t row, int64_t column, int64_t element) {
    to[element] += from[row * width + column];
  });
}

void unfold(const Windows& windows, const View& columns, const View& planes) {
  planes.dtype == DType::f64 ? unfold<double>(windows, columns, planes)
                             : unfold<float>(windows, columns, planes);
}
void fold(const Windows& windows, const View& planes, const View& columns) {
  planes.dtype == DType::f64 ? fold<double>(windows, planes, columns)
                             : fold<float>(windows, planes, columns);
}

template <class Body>
void for_each_image(int64_t images, int64_t groups, Body&& body) {
  for (int64_t image = 0; image < images; ++image)
    for (int64_t group = 0; group < groups; ++group) body(image, group);
}

}  // namespace

void unfold_conv2d(const View& y, const View& x, const View& weight, const Window2d& window) {
  const Windows windows = windows_of(x, y, window);
  const View columns = columns_for(windows, x.dtype);
  for_each_image(x.shape[0], window.groups, [&](int64_t image, int64_t group) {
    unfold(windows, columns, planes_of(x, image, group, window.groups));
    on({}).matmul(planes_of(y, image, group, window.groups),
                  weight_of(weight, group, window.groups), columns, 0);
  });
}

void unfold_conv2d_backward_input(const View& dx, const View& g, const View& weight,
                                  const Window2d& window) {
  const Windows windows = windows_of(dx, g, window);
  const View columns = columns_for(windows, dx.dtype);
  for_each_image(dx.shape[0], window.groups, [&](int64_t image, int64_t group) {
    on({}).matmul(columns, transposed(weight_of(weight, group, window.groups)),
                  planes_of(g, image, group, window.groups), 0);
    fold(windows, planes_of(dx, image, group, window.groups), columns);
  });
}

void unfold_conv2d_backward_weight(const View& dweight, const View& g, const View& x,
                                   const Window2d& window) {
  const Windows windows = windows_of(x, g, window);
  const View columns = columns_for(windows, x.dtype);
  on({}).fill(dweight, 0);
  for_each_image(x.shape[0], window.groups, [&](int64_t image, int64_t group) {
    unfold(windows, columns, planes_of(x, image, group, window.groups));
    on({}).matmul(weight_of(dweight, group, window.groups),
                  planes_of(g, image, group, window.groups), transposed(columns), 1);
  });
}

}  // namespace booster::kernels::cpu
