// The windows are copied into rows, which costs a pass over the image. Channels-last results and
// gradients are used as matrices in place; others are copied.
#include "kernels/cuda/products/patch_convolution.h"

#include "kernels/arguments/convolution.h"
#include "kernels/cuda/catalogue.h"
#include "kernels/cuda/runtime/memory.h"

#include <initializer_list>

namespace booster::kernels::cuda {
namespace {

// Returns a dense view of a shape.
View dense_view(void* data, DType dtype, Device device, std::initializer_list<int64_t> shape) {
  View view = {data, dtype, device, 0, {}, {}};
  for (const int64_t size : shape) view.shape[view.ndim++] = size;
  int64_t stride = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

// Returns the windows of an image as (images, rows, columns, channels, height, width).
View windows_of(const View& x, const View& y, const Window2d& window) {
  View view = x;
  view.ndim = 6;
  const int64_t shape[] = {x.shape[0], y.shape[2],       y.shape[3],
                           x.shape[1], window.kernel[0], window.kernel[1]};
  const int64_t strides[] = {x.strides[0],
                             x.strides[2] * window.kernel[0],
                             x.strides[3] * window.kernel[1],
                             x.strides[1],
                             x.strides[2],
                             x.strides[3]};
  for (int i = 0; i < 6; ++i) view.shape[i] = shape[i], view.strides[i] = strides[i];
  return view;
}

// A matrix with a row for each window.
class Patches {
 public:
  Patches(const View& x, const View& y, const Window2d& window)
      : windows_(windows_of(x, y, window)),
        room_(static_cast<size_t>(windows_.size() * size_of(x.dtype))) {
    copy_ = dense_view(room_.data(), x.dtype, x.device,
                       {windows_.shape[0], windows_.shape[1], windows_.shape[2], windows_.shape[3],
                        windows_.shape[4], windows_.shape[5]});
  }
  void fetch() const { copy(copy_, windows_); }
  void deliver() const { copy(windows_, copy_); }
  View matrix() const {
    return dense_view(copy_.data, copy_.dtype, copy_.device,
                      {copy_.shape[0] * copy_.shape[1] * copy_.shape[2],
                       copy_.shape[3] * copy_.shape[4] * copy_.shape[5]});
  }

 private:
  View windows_, copy_;
  TakenScratch room_;
};

// A result, or its gradient, as (images * windows, features): itself or a copy.
class Features {
 public:
  explicit Features(const View& y)
      : asked_(y),
        given_(laid_out(y, true)),
        is_copy_(!same_layout(y, given_)),
        room_(is_copy_ ? static_cast<size_t>(y.size() * size_of(y.dtype)) : 0) {
    if (is_copy_) given_.data = room_.data();
  }
  void fetch() const {
    if (is_copy_) copy(given_, asked_);
  }
  void deliver() const {
    if (is_copy_) copy(asked_, given_);
  }
  View matrix() const {
    return dense_view(given_.data, given_.dtype, given_.device,
                      {given_.shape[0] * given_.shape[2] * given_.shape[3], given_.shape[1]});
  }

 private:
  View asked_, given_;
  bool is_copy_;
  TakenScratch room_;
};

View filters(const View& weight) {
  return dense_view(weight.data, weight.dtype, weight.device,
                    {weight.shape[0], weight.shape[1] * weight.shape[2] * weight.shape[3]});
}

bool covers(const View& x, const View& y, const Window2d& window) {
  for (int i = 0; i < 2; ++i)
    if (y.shape[2 + i] * window.kernel[i] != x.shape[2 + i]) return false;
  return true;
}

}  // namespace

bool is_patchwise(const View& weight, const Window2d& window) {
  return are_patches(window) && weight.contiguous();
}

void patch_convolution(const View& y, const View& x, const View& weight, const View& bias,
                       const Window2d& window) {
  const Patches patches(x, y, window);
  const Features features(y);
  patches.fetch();
  linear(features.matrix(), patches.matrix(), filters(weight), bias);
  features.deliver();
}

void patch_convolution_input(const View& dx, const View& g, const View& weight,
                             const Window2d& window) {
  const Patches patches(dx, g, window);
  const Features features(g);
  features.fetch();
  matmul(patches.matrix(), features.matrix(), filters(weight), 0);
  if (!covers(dx, g, window)) fill(dx, 0);
  patches.deliver();
}

void patch_convolution_weight(const View& dweight, const View& dbias, const View& g, const View& x,
                              const Window2d& window) {
  const Patches patches(x, g, window);
  const Features features(g);
  patches.fetch();
  features.fetch();
  linear_backward_weight(filters(dweight), dbias, features.matrix(), patches.matrix(), 0);
}

}  // namespace booster::kernels::cuda
