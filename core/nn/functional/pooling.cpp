// Pooling of (n, channels, height, width).
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/nn/functional/window.h"
#include "core/tensor/channels_last.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

void check_image(const char* op, const Tensor& x) {
  arguments::floating(op, "x", x);
  if (x.ndim() != 4)
    fail("{}: wrong number of dimensions; got {}, want (n, c, h, w)", op, x.shape());
}

kernels::Window2d pooling_window(const char* op, Size2d kernel, const PoolOptions& options) {
  const kernels::Window2d window =
      window_of(kernel, options.stride.value_or(kernel), options.padding, options.dilation, 1);
  for (int i = 0; i < 2; ++i)
    check(2 * window.padding[i] <= window.kernel[i],
          "{}: padding is more than half the window; got {}, want at most {}", op,
          window.padding[i], window.kernel[i] / 2);
  return window;
}

// Throws if a window misses the image: a dilated window that begins in the padding may step over a
// small image.
void check_windows_meet(const Tensor& x, const kernels::Window2d& window, Size2d size) {
  const int64_t windows[2] = {size.height, size.width};
  for (int i = 0; i < 2; ++i)
    for (int64_t k = 0; k < windows[i]; ++k) {
      const int64_t start = k * window.stride[i] - window.padding[i];
      if (start >= 0) break;
      const int64_t first = (start % window.dilation[i] + window.dilation[i]) % window.dilation[i];
      check(first < x.size(2 + i),
            "max_pool2d: a window misses the image; got side {} with padding {} and "
            "dilation {}",
            x.size(2 + i), window.padding[i], window.dilation[i]);
    }
}

// The memory order of a call's tensors: that of its image. Kernels on a CPU take both.
struct ImageOrder {
  explicit ImageOrder(const Tensor& x)
      : by_channels(x.device() == Device{} && is_channels_last(x)) {}

  Tensor ordered(const Tensor& x) const {
    return by_channels ? untracked::channels_last(x) : untracked::contiguous(x);
  }
  Tensor room(const Shape& shape, TensorOptions options) const {
    return by_channels ? empty_channels_last(shape, options) : empty(shape, options);
  }
  Tensor room_for(const Tensor& x, Size2d size) const {
    return room({x.size(0), x.size(1), size.height, size.width}, {x.dtype(), x.device()});
  }

  bool by_channels;
};

// Returns zeros if g is empty, else the values that `kernel(dx, g)` writes.
template <class Kernel>
Tensor image_gradient(const Shape& shape, ImageOrder order, const Tensor& g, Kernel kernel) {
  if (g.numel() == 0) return zeros(shape, {g.dtype(), g.device()});
  const Tensor dx = order.room(shape, {g.dtype(), g.device()});
  kernel(dx.view(), order.ordered(g).view());
  return dx;
}

// Reports to the thread's recorder, if there is one.
void note_pool(const char* name, const Tensor& x, const Tensor& y, Size2d kernel,
               const PoolOptions& options) {
  if (op_recorder) [[unlikely]]
    note_op(name, {x}, {y},
            {{"kernel", sides_of(kernel)},
             {"stride", sides_of(options.stride.value_or(kernel))},
             {"padding", sides_of(options.padding)},
             {"dilation", sides_of(options.dilation)},
             {"count_padding", options.count_padding},
             {"ceil_mode", options.ceil_mode}});
}

}  // namespace

std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, Size2d kernel,
                                                  PoolOptions options) {
  Tensor x = input;
  check_image("max_pool2d", x);
  apply_policy(Op::max_pool2d, {&x});
  const kernels::Window2d window = pooling_window("max_pool2d", kernel, options);
  const Size2d size = output_size("max_pool2d", x, window, options.ceil_mode);
  check_windows_meet(x, window, size);
  const ImageOrder order(x);
  Tensor y = order.room_for(x, size);
  const Tensor index = order.room(y.shape(), {DType::i64, x.device()});
  if (y.numel() > 0)
    kernels::on(x.device()).max_pool2d(y.view(), index.view(), order.ordered(x).view(), window);
  note_pool("max_pool2d", x, y, kernel, options);
  // The gradient goes to the position of each maximum.
  y = record(y, "max_pool2d", {x},
             [index = Saved(index), shape = x.shape(), order](const Tensor& g, Gradients& d) {
               d[0] = image_gradient(shape, order, g, [&](kernels::View dx, kernels::View upper) {
                 kernels::on(g.device()).max_pool2d_backward(dx, upper, index.get().view());
               });
             });
  return {y, index};
}

Tensor max_pool2d(const Tensor& x, Size2d kernel, PoolOptions options) {
  return max_pool2d_with_indices(x, kernel, options).first;
}

Tensor avg_pool2d(const Tensor& input, Size2d kernel, PoolOptions options) {
  Tensor x = input;
  check_image("avg_pool2d", x);
  check(options.dilation.height == 1 && options.dilation.width == 1,
        "avg_pool2d: only max_pool2d has dilation; got ({}, {}), want 1", options.dilation.height,
        options.dilation.width);
  apply_policy(Op::avg_pool2d, {&x});
  const kernels::Window2d window = pooling_window("avg_pool2d", kernel, options);
  const bool count_padding = options.count_padding;
  const ImageOrder order(x);
  Tensor y = order.room_for(x, output_size("avg_pool2d", x, window, options.ceil_mode));
  if (y.numel() > 0)
    kernels::on(x.device()).avg_pool2d(y.view(), order.ordered(x).view(), window, count_padding);
  note_pool("avg_pool2d", x, y, kernel, options);
  // Every position of a window gets g / divisor.
  return record(y, "avg_pool2d", {x},
                [window, count_padding, shape = x.shape(), order](const Tensor& g, Gradients& d) {
                  d[0] = image_gradient(
                      shape, order, g, [&](kernels::View dx, kernels::View upper) {
                        kernels::on(g.device())
                            .avg_pool2d_backward(dx, upper, window, count_padding);
                      });
                });
}

Tensor adaptive_avg_pool2d(const Tensor& input, Size2d size) {
  Tensor x = input;
  check_image("adaptive_avg_pool2d", x);
  apply_policy(Op::adaptive_avg_pool2d, {&x});
  if (size.height <= 0 || size.width <= 0 || x.size(2) == 0 || x.size(3) == 0)
    fail("adaptive_avg_pool2d: a side is empty; got {} to ({}, {})", x.shape(), size.height,
         size.width);
  const ImageOrder order(x);
  Tensor y = order.room_for(x, size);
  if (y.numel() > 0)
    kernels::on(x.device()).adaptive_avg_pool2d(y.view(), order.ordered(x).view());
  // Every position of a window gets g / size of the window.
  return record(
      y, "adaptive_avg_pool2d", {x}, [shape = x.shape(), order](const Tensor& g, Gradients& d) {
        d[0] = image_gradient(shape, order, g, [&](kernels::View dx, kernels::View upper) {
          kernels::on(g.device()).adaptive_avg_pool2d_backward(dx, upper);
        });
      });
}

}  // namespace booster
