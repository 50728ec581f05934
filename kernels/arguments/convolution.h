// Shared by the libraries' convolutions, which accept two orders of a tensor's elements:
// - (n, c, h, w), rows innermost;
// - (n, h, w, c), channels innermost.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels {

// The result of a pass: y, the gradient of x, or the gradient of the weight.
enum class ConvolutionPass : int64_t { forward, input, weight };

// Returns a view of 4 dimensions with dense strides in that order.
inline View laid_out(View view, bool channels_last) {
  const int rows_inside[] = {3, 2, 1, 0}, channels_inside[] = {1, 3, 2, 0};
  int64_t stride = 1;
  for (const int i : channels_last ? channels_inside : rows_inside) {
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

// Returns true if both have the same strides, ignoring dimensions of one element.
inline bool same_layout(const View& a, const View& b) {
  for (int i = 0; i < a.ndim; ++i)
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

// Returns a view of each channel's bias at every position of its plane. y is (n, c, h, w).
inline View bias_plane(const View& bias, const View& y) {
  View plane = y;
  plane.data = bias.data;
  plane.dtype = bias.dtype;
  for (int64_t& stride : plane.strides) stride = 0;
  plane.strides[1] = bias.strides[0];
  return plane;
}

// Returns true if windows of more than one tap are adjacent without overlap, in one group, like
// patches of an image. On a GPU such a convolution is a product of matrices.
inline bool are_patches(const Window2d& window) {
  for (int i = 0; i < 2; ++i)
    if (window.stride[i] != window.kernel[i] || window.padding[i] != 0 || window.dilation[i] != 1)
      return false;
  return window.groups == 1 && window.kernel[0] * window.kernel[1] > 1;
}

inline bool is_channels_last(const View& image) {
  return !image.contiguous() && same_layout(image, laid_out(image, true));
}

}  // namespace booster::kernels
