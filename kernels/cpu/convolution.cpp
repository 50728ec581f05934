// Convolution on the CPU: oneDNN for f32, bf16 and (its version 3) f16, unless convolution_choice.h
// has a faster way. Channels-last images are convolved in place. Any other tensor is reordered to
// the layout that the library prefers, and back. A 16-bit dtype that the processor or the library
// lacks is converted exactly to f32, with one rounding at the end. f64, and anything else that
// oneDNN lacks, goes to unfold.cpp.
//
// One 3.5 GHz Zen 4 core (peak 112 GFLOP/s in f32, 224 in bf16), GFLOP/s of forward / input /
// weight, row-major tensors, reorders included:
//   16 > 16, 3 x 3, 32 x 32, batch 128   f32  67 /  86 /  78   bf16 148 / 148 / 119
//   64 > 64, 3 x 3, 8 x 8, batch 128     f32 119 / 127 / 110   bf16 232 / 228 / 164
//   ViT-B's patches, batch 8             f32 105 /  90 /  94   bf16 154 /  16 / 142
// Unfolding and matmul are slower everywhere, patches included (94 forward in f32).
// All convolutions of ResNet-20, batch 128, on two cores:
//   row-major                            f32 170 / 188 / 157   bf16 352 / 359 / 235
//   channels last, layouts of its choice f32 180 / 203 / 171   bf16 371 / 385 / 224
//   channels last, in place              f32 223 / 233 / 219   bf16 435 / 467 / 283
//   the same with our loop (convolution_choice.h)                       ... 400
//
// Forward and input gradients have the same bits on any number of threads. A weight's gradient has
// the same bits from run to run, but oneDNN first sums the images per thread (our loop does not).
#include "kernels/arguments/convolution.h"
#include "kernels/catalogue.h"
#include "kernels/cpu/convolution_choice.h"
#include "kernels/cpu/library_plans.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/unfold.h"
#include "kernels/device/memory.h"
#include "platform/threads.h"

#include <algorithm>
#include <utility>

namespace booster::kernels::cpu {

namespace {

using dnnl::memory;

using Pass = ConvolutionPass;

// The tensors that a pass reads and writes, in the order (first operand, second operand, result):
// forward (x, weight, y), input (g, weight, dx), weight (x, g, dweight). All have 4 dimensions.
struct Operands {
  View left, right, result;
  View bias;  // f32; forward only
};

// Normalises the strides of both layouts that the library takes, so that equal layouts have equal
// keys. Returns false for any other layout.
bool normalise(View& view) {
  for (const bool channels_last : {false, true}) {
    const View candidate = laid_out(view, channels_last);
    if (!same_layout(view, candidate)) continue;
    view = candidate;
    return true;
  }
  return false;
}

// Returns memory of another dtype for a tensor, in the same order if it is channels last.
View room_for(ScratchUse use, DType dtype, const View& view) {
  return laid_out(scratch_view(use, dtype, view), is_channels_last(view));
}

View readable(ScratchUse use, DType dtype, View view) {
  if (view.dtype == dtype && normalise(view)) return view;
  const View copy = room_for(use, dtype, view);
  on({}).copy(copy, view);
  return copy;
}

View writable(ScratchUse use, DType dtype, View view) {
  return view.dtype == dtype && normalise(view) ? view : room_for(use, dtype, view);
}

struct Key {
  Pass pass;
  int64_t shapes[3][4], strides[3][4];
  Window2d window;
  DType dtype, result_dtype;
  bool bias;
  int8_t padding[5];
  int64_t threads;
};

Key key_of(Pass pass, const Operands& operands, const Window2d& window) {
  Key key = {.pass = pass,
             .shapes = {},
             .strides = {},
             .window = window,
             .dtype = operands.left.dtype,
             .result_dtype = operands.result.dtype,
             .bias = operands.bias.data != nullptr,
             .padding = {},
             .threads = thread_count()};
  const View* views[] = {&operands.left, &operands.right, &operands.result};
  for (int i = 0; i < 3; ++i) {
    std::copy_n(views[i]->shape, 4, key.shapes[i]);
    std::copy_n(views[i]->strides, 4, key.strides[i]);
  }
  return key;
}

// Returns (out, c / groups, kh, kw) as the library's (groups, out / groups, c / groups, kh, kw).
View grouped(const View& weight, int64_t groups) {
  if (groups == 1) return weight;
  View view = weight;
  view.ndim = 5;
  for (int i = 0; i < 4; ++i) {
    view.shape[i + 1] = weight.shape[i];
    view.strides[i + 1] = weight.strides[i];
  }
  view.shape[0] = groups;
  view.shape[1] = weight.shape[0] / groups;
  view.strides[0] = view.shape[1] * weight.strides[0];
  return view;
}

memory::desc bias_layout(const View& bias) {
  if (!bias.data) return {};
  return {{bias.shape[0]}, memory::data_type::f32, memory::format_tag::a};
}

// Layout of images during the convolution: the library's choice, or channels last if they already
// are.
enum class Layouts { chosen, channels_last_kept };

memory::desc image_layout(const View& image, Layouts layouts) {
  const bool kept = layouts == Layouts::channels_last_kept && is_channels_last(image);
  return kept ? describe(image) : any_layout(image);
}

// Returns the plans of a convolution of x, weight and y.
ConvolutionPlans plans(const View& x, const View& weight, const View& y, const View& bias,
                       const Window2d& window, Layouts layouts) {
  return {.x = image_layout(x, layouts),
          .weight = any_layout(weight),
          .bias = bias_layout(bias),
          .y = image_layout(y, layouts),
          .stride = {window.stride, window.stride + 2},
          .dilation = {window.dilation[0] - 1, window.dilation[1] - 1},
          .padding = {window.padding, window.padding + 2}};
}

// A convolution, with the reorders of its operands before it and of its result after it.
class Convolution {
 public:
  // Makes an empty one: "the library has only reference code for this".
  Convolution() = default;
  // Makes it from descriptions: left, right and result are in the library's layouts, `caller` in
  // the caller's.
  Convolution(const dnnl::primitive& primitive, const memory::desc& scratchpad,
              const Argument& left, const Argument& right, const Argument& result,
              const Operands& caller)
      : left_(describe(caller.left), left.layout, left.layout),
        right_(describe(caller.right), right.layout, right.layout),
        result_(result.layout, describe(caller.result), result.layout) {
    const Argument bias = {DNNL_ARG_BIAS, bias_layout(caller.bias)};
    primitive_ = caller.bias.data ? Primitive(primitive, scratchpad, {left, right, result, bias})
                                  : Primitive(primitive, scratchpad, {left, right, result});
  }

  explicit operator bool() const { return static_cast<bool>(primitive_); }

  void operator()(const Operands& caller) {
    void* left = left_.place(ScratchUse::library_left, caller.left.data);
    void* right = right_.place(ScratchUse::library_right, caller.right.data);
    void* result = result_.place(ScratchUse::library_result, caller.result.data);
    left_.run(caller.left.data, left);
    right_.run(caller.right.data, right);
    if (caller.bias.data)
      primitive_({left, right, result, caller.bias.data});
    else
      primitive_({left, right, result});
    result_.run(result, caller.result.data);
  }

 private:
  Primitive primitive_;
  Reorder left_, right_, result_;
};

// Returns the library's plan with its own choice of code, or with the next code that is faster.
template <class Plan>
auto planned(Pass pass, DType dtype, const Window2d& window, Plan&& plan) {
  const auto chosen = plan();
  if (is_reference(chosen) || !is_slow(chosen.impl_info_str(), pass, dtype, window)) return chosen;
  auto other = plan();  // a copy of `chosen` would move to the next code with it
  while (other.next_impl() && !is_reference(other))
    if (!is_slow(other.impl_info_str(), pass, dtype, window)) return other;
  return chosen;
}

Convolution make_forward(const Operands& operands, const Window2d& window, Layouts layouts) {
  const auto& [x, weight, y, bias] = operands;
  const auto passes = plans(x, weight, y, bias, window, layouts);
  const auto plan =
      planned(Pass::forward, x.dtype, window, [&] { return passes.forward(default_attributes()); });
  if (is_reference(plan)) return {};
  return {dnnl::convolution_forward(plan), plan.scratchpad_desc(),
          {DNNL_ARG_SRC, plan.src_desc()}, {DNNL_ARG_WEIGHTS, plan.weights_desc()},
          {DNNL_ARG_DST, plan.dst_desc()}, operands};
}

Convolution make_backward_input(const Operands& operands, const Window2d& window, Layouts layouts) {
  const auto& [dy, weight, dx, bias] = operands;
  const auto passes = plans(dx, weight, dy, {}, window, layouts);
  const auto forward = passes.forward(default_attributes());
  if (!forward) return {};
  const auto plan = planned(Pass::input, dy.dtype, window,
                            [&] { return passes.backward_input(forward, default_attributes()); });
  if (is_reference(plan)) return {};
  return {dnnl::convolution_backward_data(plan),     plan.scratchpad_desc(),
          {DNNL_ARG_DIFF_DST, plan.diff_dst_desc()}, {DNNL_ARG_WEIGHTS, plan.weights_desc()},
          {DNNL_ARG_DIFF_SRC, plan.diff_src_desc()}, operands};
}

Convolution make_backward_weight(const Operands& operands, const Window2d& window,
                                 Layouts layouts) {
  const auto& [x, dy, dweight, bias] = operands;
  View weight = dweight;
  weight.dtype = x.dtype;
  const auto forward = plans(x, weight, dy, {}, window, layouts).forward(default_attributes());
  if (!forward) return {};
  const auto plan =
      plans(x, dweight, dy, {}, window, layouts).backward_weight(forward, default_attributes());
  if (is_reference(plan)) return {};
  return {dnnl::convolution_backward_weights(plan),
          plan.scratchpad_desc(),
          {DNNL_ARG_SRC, plan.src_desc()},
          {DNNL_ARG_DIFF_DST, plan.diff_dst_desc()},
          {DNNL_ARG_DIFF_WEIGHTS, plan.diff_weights_desc()},
          operands};
}

Convolution make(Pass pass, const Operands& operands, const Window2d& window, Layouts layouts) {
  switch (pass) {
    case Pass::forward: return make_forward(operands, window, layouts);
    case Pass::input: return make_backward_input(operands, window, layouts);
    case Pass::weight: return make_backward_weight(operands, window, layouts);
  }
  return {};
}

// Makes the convolution. The library may have only reference code for channels-last images, and
// better code for others.
Convolution make(Pass pass, Operands operands, const Window2d& window) {
  View& weight = pass == Pass::weight ? operands.result : operands.right;
  weight = grouped(weight, window.groups);
  Convolution as_they_lie = make(pass, operands, window, Layouts::channels_last_kept);
  return as_they_lie ? std::move(as_they_lie) : make(pass, operands, window, Layouts::chosen);
}

// Returns false if the library is faster.
bool by_loop(Pass pass, const Operands& operands, const Window2d& window) {
  const auto& [x, g, dweight, bias] = operands;
  if (pass != Pass::weight || !is_faster_by_loop(dweight, g, x, window)) return false;
  const bool wide = dweight.dtype == DType::f32;
  const View sums = wide ? dweight : scratch_view(ScratchUse::result, DType::f32, dweight);
  on({}).conv2d_weight_loop(sums, g, x, window);
  if (!wide) on({}).copy(dweight, sums);
  return true;
}

// Returns false if the library cannot do it.
bool by_library(Pass pass, const Operands& operands, const Window2d& window) {
  thread_local CallCache<Key, Convolution> cache;
  Convolution& convolution =
      cache.find(key_of(pass, operands, window), [&] { return make(pass, operands, window); });
  if (!convolution) return false;
  convolution(operands);
  return true;
}

void by_unfold(Pass pass, const Operands& operands, const Window2d& window) {
  const auto& [left, right, result, bias] = operands;
  switch (pass) {
    case Pass::forward:
      unfold_conv2d(result, left, right, window);
      if (bias.data) on({}).binary(BinaryOp::add, result, result, bias_plane(bias, result));
      break;
    case Pass::input: unfold_conv2d_backward_input(result, left, right, window); break;
    case Pass::weight: unfold_conv2d_backward_weight(result, right, left, window); break;
  }
}

// Returns the pass's operands as `dtype` and its result as `result_dtype`, in memory that the
// library can address.
Operands converted(const Operands& operands, DType dtype, DType result_dtype) {
  return {readable(ScratchUse::left, dtype, operands.left),
          readable(ScratchUse::right, dtype, operands.right),
          writable(ScratchUse::result, result_dtype, operands.result), operands.bias};
}

// Does the same for unfolding, which needs all tensors contiguous.
Operands contiguous(const Operands& operands, DType dtype) {
  const auto plain = [&](const View& view) { return view.dtype == dtype && view.contiguous(); };
  const auto& [left, right, result, bias] = operands;
  return {plain(left) ? left : copied(ScratchUse::left, dtype, left),
          plain(right) ? right : copied(ScratchUse::right, dtype, right),
          plain(result) ? result : scratch_view(ScratchUse::result, dtype, result), bias};
}

void finish(const Operands& done, const Operands& asked) {
  if (done.result.data != asked.result.data) on({}).copy(asked.result, done.result);
}

// Writes the result of an empty sum: the bias, or zero.
void convolve_nothing(const Operands& operands) {
  const auto& [left, right, result, bias] = operands;
  bias.data ? on({}).copy(result, bias_plane(bias, result)) : on({}).fill(result, 0);
}

void convolve(Pass pass, const Operands& operands, const Window2d& window) {
  if (operands.result.size() == 0) return;
  if (operands.left.size() == 0 || operands.right.size() == 0) return convolve_nothing(operands);
  if (by_loop(pass, operands, window)) return;
  const DType dtype = operands.left.dtype;
  const auto through_library = [&](DType type, DType result_type) {
    const Operands native = converted(operands, type, result_type);
    const bool done = by_library(pass, native, window);
    if (done) finish(native, operands);
    return done;
  };
  if (is_16_bit(dtype) && through_library(dtype, operands.result.dtype)) return;
  if (dtype != DType::f64 && through_library(DType::f32, DType::f32)) return;
  const Operands plain = contiguous(operands, dtype == DType::f64 ? DType::f64 : DType::f32);
  by_unfold(pass, plain, window);
  finish(plain, operands);
}

View wide_bias(const View& bias, DType x_dtype) {
  if (!bias.data) return bias;
  const DType dtype = x_dtype == DType::f64 ? DType::f64 : DType::f32;
  return bias.dtype == dtype && bias.strides[0] == 1 ? bias : copied(ScratchUse::bias, dtype, bias);
}

}  // namespace

void conv2d(View y, View x, View weight, View bias, Window2d window) {
  if (!bias.data && x.dtype != DType::f64 && is_faster_as_gradient(y, x, window))
    return convolve(Pass::input, {x, mirrored(weight), y, {}}, mirrored(window));
  convolve(Pass::forward, {x, weight, y, wide_bias(bias, x.dtype)}, window);
}

void conv2d_backward_input(View dx, View g, View weight, Window2d window) {
  convolve(Pass::input, {g, weight, dx, {}}, window);
}

void conv2d_backward_weight(View dweight, View dbias, View g, View x, Window2d window) {
  convolve(Pass::weight, {x, g, dweight, {}}, window);
  if (!dbias.data) return;
  View sums = laid_out(
      {.data = dbias.data, .dtype = dbias.dtype, .ndim = 4, .shape = {1, g.shape[1], 1, 1}}, false);
  sums.strides[1] = dbias.strides[0];
  on({}).reduce(ReduceOp::sum, sums, g);
}

}  // namespace booster::kernels::cpu
