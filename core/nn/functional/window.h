// Arithmetic of sliding windows, shared by convolution and pooling.
#pragma once

#include "core/nn/functional.h"

#include <vector>

namespace booster {

inline std::vector<int64_t> sides_of(Size2d size) { return {size.height, size.width}; }

inline kernels::Window2d window_of(Size2d kernel, Size2d stride, Size2d padding, Size2d dilation,
                                   int64_t groups) {
  return {{kernel.height, kernel.width},
          {stride.height, stride.width},
          {padding.height, padding.width},
          {dilation.height, dilation.width},
          groups};
}

// Returns the output's height and width for x (n, c, h, w); throws if the window does not fit. Each
// is floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1. ceil_mode adds a window for
// a remainder of the image, unless that window would begin in the padding. With ceil_mode, even the
// first window may extend past the image, by less than the stride.
inline Size2d output_size(const char* op, const Tensor& x, const kernels::Window2d& window,
                          bool ceil_mode = false) {
  int64_t size[2];
  for (int i = 0; i < 2; ++i) {
    check(window.kernel[i] > 0 && window.stride[i] > 0 && window.dilation[i] > 0 &&
              window.padding[i] >= 0,
          "{}: wrong window; got kernel {}, stride {}, dilation {}, padding {}, want positive "
          "numbers",
          op, window.kernel[i], window.stride[i], window.dilation[i], window.padding[i]);
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const int64_t room = x.size(2 + i) + 2 * window.padding[i];
    const int64_t beyond = ceil_mode ? window.stride[i] - 1 : 0;
    size[i] = room + beyond < reach ? 0 : (room + beyond - reach) / window.stride[i] + 1;
    const int64_t last = (size[i] - 1) * window.stride[i] - window.padding[i];
    if (ceil_mode && last >= x.size(2 + i)) --size[i];
    check(size[i] > 0, "{}: window is larger than the image; got {} of {} with padding {}", op,
          reach, x.size(2 + i), window.padding[i]);
  }
  return {size[0], size[1]};
}

}  // namespace booster
