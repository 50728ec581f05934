// Matrix units need adjacent channels, so cuDNN gets 16-bit dtypes and TF32 as (n, h, w, c);
// tensors in another order are copied. It gets strict f32 in place, as (n, c, h, w). If the library
// refuses the first layout, the other one is tried.
//
// A bias is written to y before the convolution adds to it (beta = 1), so that any algorithm rounds
// the sum once. An f32 gradient of a 16-bit weight is computed from f32 copies: TF32 represents
// every f16 and bf16, so the matrix units' products stay exact.
#include "kernels/cuda/products/library_convolution.h"

#include "kernels/cuda/products/convolution_plan.h"
#include "kernels/cuda/products/product_plan.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <map>

namespace booster::kernels::cuda {

void copy(View out, View in);  // kernels/elementwise/elementwise.cpp

namespace {

constexpr uintptr_t alignment = 16;  // cuDNN's matrix units read this many bytes at once

// A tensor in the layout and the dtype in which cuDNN computes: itself, or a copy.
class Arranged {
 public:
  Arranged(const View& asked, DType dtype, bool channels_last)
      : asked_(asked),
        given_(laid_out(asked, channels_last)),
        is_copy_(asked.dtype != dtype || !same_layout(asked, given_) ||
                 reinterpret_cast<uintptr_t>(asked.data) % alignment != 0),
        room_(is_copy_ ? static_cast<size_t>(asked.size() * size_of(dtype)) : 0) {
    given_.dtype = dtype;
    if (is_copy_) given_.data = room_.data();
  }
  void fetch() const {
    if (is_copy_) copy(given_, asked_);
  }
  void deliver() const {
    if (is_copy_) copy(asked_, given_);
  }
  const View& given() const { return given_; }

 private:
  View asked_, given_;
  bool is_copy_;
  TakenScratch room_;
};

std::array<int, 4> shape_of(const View& view) {
  std::array<int, 4> shape;
  for (int i = 0; i < 4; ++i) shape[i] = static_cast<int>(view.shape[i]);
  return shape;
}
std::array<int, 2> pair(const int64_t (&two)[2]) {
  return {static_cast<int>(two[0]), static_cast<int>(two[1])};
}

// Returns true if cuDNN supports the sizes: it counts in int, and requires the sizes that it would
// compute itself.
bool has_sizes_for(const View& x, const View& weight, const View& y, const Window2d& window) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  for (const View* view : {&x, &weight, &y})
    if (view->size() == 0 || view->size() > most) return false;
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const int64_t padded = x.shape[2 + i] + 2 * window.padding[i];
    if (window.stride[i] > most || reach > most || padded > most) return false;
    if ((padded - reach) / window.stride[i] + 1 != y.shape[2 + i]) return false;
  }
  return true;
}

ConvolutionPlan& plan_for(const ConvolutionKey& key) {
  thread_local std::map<ConvolutionKey, ConvolutionPlan> plans;
  if (const auto known = plans.find(key); known != plans.end()) return known->second;
  refuse_in_recording("a convolution is prepared");
  return plans.emplace(key, ConvolutionPlan(key)).first->second;
}

// Warns once, because a model with many such convolutions trains many times slower without another
// sign.
void tell_of_refusal(const ConvolutionKey& key) {
  static std::atomic_flag told;
  if (told.test_and_set()) return;
  warn(
      fmt::format("booster: slow convolutions on the GPU because cuDNN refuses some; the first is "
                  "{} of {} images ({}, {}, {}) with filters ({}, {}, {}, {}) in {} groups",
                  name_of(key.dtype), key.x[0], key.x[1], key.x[2], key.x[3], key.weight[0],
                  key.weight[1], key.weight[2], key.weight[3], key.groups));
}

}  // namespace

bool library_convolution(ConvolutionPass pass, const View& x, const View& weight, const View& y,
                         const View& bias, const Window2d& window) {
  const View* const all[] = {&y, &x, &weight};
  const auto written = static_cast<int>(pass);
  const DType from = all[(written + 1) % 3]->dtype, to = all[written]->dtype;
  const DType dtype = from == to ? from : DType::f32;
  if (!is_floating(from) || !is_floating(to) || from == DType::f64 || to == DType::f64 ||
      all[(written + 2) % 3]->dtype != from || (bias.data && bias.dtype != to) ||
      !has_sizes_for(x, weight, y, window) || !has_cudnn())
    return false;
  const bool may_round = allows_tf32() || is_16_bit(from);
  ConvolutionKey key = {current_device(),
                        pass,
                        dtype,
                        may_round,
                        may_round,
                        shape_of(x),
                        shape_of(weight),
                        shape_of(y),
                        pair(window.stride),
                        pair(window.padding),
                        pair(window.dilation),
                        static_cast<int>(window.groups)};
  for (const bool channels_last : {may_round, !may_round}) {
    key.channels_last = channels_last;
    ConvolutionPlan& plan = plan_for(key);
    if (!plan.is_possible()) continue;
    const Arranged arranged[] = {Arranged(y, dtype, channels_last),
                                 Arranged(x, dtype, channels_last),
                                 Arranged(weight, dtype, channels_last)};
    for (int i = 0; i < 3; ++i)
      if (i != written) arranged[i].fetch();
    const View& result = arranged[written].given();
    if (bias.data) copy(result, bias_plane(bias, result));
    if (!plan.run(arranged[1].given().data, arranged[2].given().data, arranged[0].given().data,
                  bias.data ? 1 : 0))
      continue;
    arranged[written].deliver();
    return true;
  }
  tell_of_refusal(key);
  return false;
}

size_t convolution_library_version() { return cudnn() ? cudnn()->version() : 0; }
const std::string& why_no_convolution_library() { return why_no_cudnn(); }

}  // namespace booster::kernels::cuda
