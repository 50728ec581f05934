#include "kernels/cpu/convolution_choice.h"

#include "kernels/cpu/library.h"
#include "kernels/cpu/primitive.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstddef>
#include <string>
#include <utility>

namespace booster::kernels::cpu {

namespace {

// Returns true for oneDNN's names of AVX2, alone or with either kind of VNNI.
bool has_avx2_alone() {
  static const bool has = library_isa().starts_with("AVX2");
  return has;
}

// Returns true for AVX-512 with or without bf16 products. Names with AMX or f16 arithmetic have
// different endings.
bool has_avx512_alone() {
  static const bool has = [] {
    const std::string isa = library_isa();
    return isa == "AVX512_CORE" || isa == "AVX512_CORE_VNNI" || isa == "AVX512_CORE_BF16";
  }();
  return has;
}

// Returns true for AVX2 before version 3; since then both passes use the same code.
bool has_slow_forward() {
  static const bool has = has_avx2_alone() && dnnl_version()->major < 3;
  return has;
}

// Returns false for oneDNN 2, which would read the operation's descriptor again to try other code
// (library_plans.h). It chooses the older code by itself.
bool has_choice_of_code() {
  static const bool has = dnnl_version()->major >= 3;
  return has;
}

// Returns false for kernels of 1 x 1: they are matrix products, for which oneDNN has other code.
bool is_plain(const View& x, const View& y, const Window2d& window) {
  return window.groups == 1 && window.kernel[0] * window.kernel[1] > 1 && is_channels_last(x) &&
         is_channels_last(y);
}

// One-off work on the weight pays off for many positions. Fewer were not tried.
constexpr int64_t fewest_positions = 4096;

// Returns true for one block of 8 channels, or if 2 or 3 divides their number. oneDNN's code for
// the gradient then handles 2 or 3 blocks at once. Otherwise it handles one, which is slow: 40 and
// 56 channels take 1.3 times as long as forward.
bool are_worked_on_together(int64_t channels) {
  const int64_t blocks = channels / 8;
  return channels % 8 == 0 && (blocks == 1 || blocks % 2 == 0 || blocks % 3 == 0);
}

// Returns true if the gradient is faster: for wide images the forward pass is as fast, unless they
// have few channels.
bool is_gradient_faster(const View& y) {
  return are_worked_on_together(y.shape[1]) && (y.shape[3] <= 32 || y.shape[1] <= 16);
}

// The sums of one part of the images stay in the second-level cache.
constexpr int64_t most_sums = 9 * 128 * 128;

int64_t positions(const View& y) { return y.shape[0] * y.shape[2] * y.shape[3]; }

}  // namespace

bool is_faster_as_gradient(const View& y, const View& x, const Window2d& window) {
  const auto [rows, columns] = mirrored(window).padding;
  return has_slow_forward() && is_plain(x, y, window) && rows >= 0 && columns >= 0 &&
         window.stride[0] == 1 && window.stride[1] == 1 && is_gradient_faster(y) &&
         x.shape[1] % 8 == 0 && positions(y) >= fewest_positions;
}

bool is_slow(std::string_view code, ConvolutionPass pass, DType dtype, const Window2d& window) {
  const bool strided = window.stride[0] > 1 || window.stride[1] > 1;
  return has_choice_of_code() && has_avx512_alone() && code.find("brg") != std::string_view::npos &&
         window.kernel[0] * window.kernel[1] > 1 &&
         (is_16_bit(dtype) || (pass == ConvolutionPass::input && strided));
}

View mirrored(const View& weight) {
  View view = weight;
  std::swap(view.shape[0], view.shape[1]);
  std::swap(view.strides[0], view.strides[1]);
  int64_t last = 0;
  for (const int axis : {2, 3}) {
    last += (view.shape[axis] - 1) * view.strides[axis];
    view.strides[axis] = -view.strides[axis];
  }
  view.data = view.as<std::byte>() + last * size_of(view.dtype);
  return copied(ScratchUse::mirrored, weight.dtype, view);
}

Window2d mirrored(const Window2d& window) {
  Window2d other = window;
  for (const int axis : {0, 1})
    other.padding[axis] = window.dilation[axis] * (window.kernel[axis] - 1) - window.padding[axis];
  return other;
}

bool is_faster_by_loop(const View& dweight, const View& g, const View& x, const Window2d& window) {
  const bool faster = has_avx2_alone() || (has_avx512_alone() && is_16_bit(x.dtype));
  const int64_t lanes = has_avx2_alone() ? 8 : 16;
  return faster && x.dtype != DType::f64 && is_plain(x, g, window) && dweight.size() <= most_sums &&
         dweight.shape[0] % 8 == 0 && dweight.shape[1] % lanes == 0 &&
         positions(g) >= fewest_positions;
}

}  // namespace booster::kernels::cpu
