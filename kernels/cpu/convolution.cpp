// Convolution on the CPU: oneDNN for f32 and bf16, each tensor reordered to the layout that the
// library prefers and back; f16 (and bf16 where the processor lacks it) by exact conversion to f32
// with one rounding at the end; f64, and whatever oneDNN lacks, by unfold.cpp.
#include "kernels/catalogue.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/unfold.h"
#include "kernels/memory.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace booster::kernels::cpu {

namespace {

using dnnl::memory;

enum class Pass : int64_t { forward, input, weight };

// What a pass reads and writes, in the order (first operand, second operand, result):
// forward (x, weight, y), input (g, weight, dx), weight (x, g, dweight). All have 4 dimensions.
struct Operands {
  View left, right, result;
  View bias;  // f32; forward only
};

const Table& kernels_here() { return on(Device{}); }

View copied(Scratch use, DType dtype, const View& from) {
  const View to = scratch_view(use, dtype, from);
  kernels_here().copy(to, from);
  return to;
}

// Elements follow each other without gaps in some order of the dimensions.
bool dense(const View& view) {
  int order[max_dims];
  std::iota(order, order + view.ndim, 0);
  std::sort(order, order + view.ndim, [&](int a, int b) { return view.strides[a] < view.strides[b]; });
  int64_t expected = 1;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.shape[order[i]] == 1) continue;
    if (view.strides[order[i]] != expected) return false;
    expected *= view.shape[order[i]];
  }
  return true;
}

// Dimensions of size 1 get a stride that the library accepts.
View normalised(View view) {
  int64_t expected = 1;
  const bool contiguous = view.contiguous();
  for (int i = view.ndim - 1; i >= 0; --i) {
    if (contiguous) view.strides[i] = expected;
    if (!contiguous && view.shape[i] == 1) view.strides[i] = view.size();
    expected *= view.shape[i];
  }
  return view;
}

View readable(Scratch use, DType dtype, const View& view) {
  return view.dtype == dtype && dense(view) ? normalised(view) : copied(use, dtype, view);
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
  Key key = {.pass = pass, .shapes = {}, .strides = {}, .window = window,
             .dtype = operands.left.dtype, .result_dtype = operands.result.dtype,
             .bias = operands.bias.data != nullptr, .padding = {}, .threads = thread_count()};
  const View* views[] = {&operands.left, &operands.right, &operands.result};
  for (int i = 0; i < 3; ++i) {
    std::copy_n(views[i]->shape, 4, key.shapes[i]);
    std::copy_n(views[i]->strides, 4, key.strides[i]);
  }
  return key;
}

// (out, c / groups, kh, kw) as the library's (groups, out / groups, c / groups, kh, kw).
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

memory::desc any_layout(const View& view) {
  return {memory::dims(view.shape, view.shape + view.ndim), library_type(view.dtype),
          memory::format_tag::any};
}

// The library's description of a window.
struct Geometry {
  memory::dims stride, dilation, padding;
  explicit Geometry(const Window2d& window)
      : stride(window.stride, window.stride + 2),
        dilation{window.dilation[0] - 1, window.dilation[1] - 1},
        padding(window.padding, window.padding + 2) {}
};

// One tensor on its way between the caller's layout and the library's; empty where they agree.
struct Reorder {
  Primitive primitive;
  size_t bytes = 0;

  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to, const memory::desc& library_side)
      : bytes(library_side.get_size()) {
    if (from == to) return;
    const dnnl::reorder::primitive_desc plan(engine(), from, engine(), to, default_attributes());
    primitive = Primitive(dnnl::reorder(plan), plan.scratchpad_desc(),
                          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  // Where the library finds this tensor: in place, or in scratch memory.
  void* place(Scratch use, void* data) const { return primitive ? scratch(use, bytes) : data; }
  void* read(Scratch use, void* data) {
    void* target = place(use, data);
    if (primitive) primitive({data, target});
    return target;
  }
};

struct Convolution {
  Primitive primitive;  // empty where the library would run its reference code
  Reorder left, right, result;

  void operator()(const Operands& operands) {
    void* first = left.read(Scratch::library_left, operands.left.data);
    void* second = right.read(Scratch::library_right, operands.right.data);
    void* target = result.place(Scratch::library_result, operands.result.data);
    if (operands.bias.data)
      primitive({first, second, target, operands.bias.data});
    else
      primitive({first, second, target});
    if (result.primitive) result.primitive({target, operands.result.data});
  }
};

template <class Plan>
bool is_reference(const Plan& plan) {
  return !plan || std::string_view(plan.impl_info_str()).starts_with("ref");
}

dnnl::convolution_forward::primitive_desc forward_plan(const View& x, const View& weight,
                                                       const View& y, const View& bias,
                                                       const Window2d& window) {
  using Forward = dnnl::convolution_forward;
  const Geometry geometry(window);
  const memory::desc bias_layout =
      bias.data ? memory::desc({y.shape[1]}, memory::data_type::f32, memory::format_tag::a)
                : memory::desc();
  const Forward::desc description(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any_layout(x),
      any_layout(weight), bias_layout, any_layout(y), geometry.stride, geometry.dilation,
      geometry.padding, geometry.padding);
  return {description, default_attributes(), engine(), true};
}

Convolution make_forward(const Operands& operands, const Window2d& window) {
  const View weight = grouped(operands.right, window.groups);
  const auto plan = forward_plan(operands.left, weight, operands.result, operands.bias, window);
  if (is_reference(plan)) return {};
  const auto x = plan.src_desc(), w = plan.weights_desc(), y = plan.dst_desc();
  const dnnl::convolution_forward primitive(plan);
  const Argument src = {DNNL_ARG_SRC, x}, weights = {DNNL_ARG_WEIGHTS, w}, dst = {DNNL_ARG_DST, y};
  Convolution made;
  made.primitive =
      operands.bias.data
          ? Primitive(primitive, plan.scratchpad_desc(),
                      {src, weights, dst, {DNNL_ARG_BIAS, plan.bias_desc()}})
          : Primitive(primitive, plan.scratchpad_desc(), {src, weights, dst});
  made.left = {describe(operands.left), x, x};
  made.right = {describe(weight), w, w};
  made.result = {y, describe(operands.result), y};
  return made;
}

Convolution make_backward_input(const Operands& operands, const Window2d& window) {
  using Backward = dnnl::convolution_backward_data;
  const Geometry geometry(window);
  const View weight = grouped(operands.right, window.groups);
  const Backward::desc description(
      dnnl::algorithm::convolution_direct, any_layout(operands.result), any_layout(weight),
      any_layout(operands.left), geometry.stride, geometry.dilation, geometry.padding,
      geometry.padding);
  const auto hint = forward_plan(operands.result, weight, operands.left, {}, window);
  if (!hint) return {};
  const Backward::primitive_desc plan(description, default_attributes(), engine(), hint, true);
  if (is_reference(plan)) return {};
  const auto g = plan.diff_dst_desc(), w = plan.weights_desc(), dx = plan.diff_src_desc();
  Convolution made;
  made.primitive =
      Primitive(Backward(plan), plan.scratchpad_desc(),
                {{DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}});
  made.left = {describe(operands.left), g, g};
  made.right = {describe(weight), w, w};
  made.result = {dx, describe(operands.result), dx};
  return made;
}

Convolution make_backward_weight(const Operands& operands, const Window2d& window) {
  using Backward = dnnl::convolution_backward_weights;
  const Geometry geometry(window);
  const View dweight = grouped(operands.result, window.groups);
  const Backward::desc description(
      dnnl::algorithm::convolution_direct, any_layout(operands.left), any_layout(dweight),
      any_layout(operands.right), geometry.stride, geometry.dilation, geometry.padding,
      geometry.padding);
  View hint_weight = dweight;
  hint_weight.dtype = operands.left.dtype;
  const auto hint = forward_plan(operands.left, hint_weight, operands.right, {}, window);
  if (!hint) return {};
  const Backward::primitive_desc plan(description, default_attributes(), engine(), hint, true);
  if (is_reference(plan)) return {};
  const auto x = plan.src_desc(), g = plan.diff_dst_desc(), dw = plan.diff_weights_desc();
  Convolution made;
  made.primitive =
      Primitive(Backward(plan), plan.scratchpad_desc(),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_DIFF_WEIGHTS, dw}});
  made.left = {describe(operands.left), x, x};
  made.right = {describe(operands.right), g, g};
  made.result = {dw, describe(dweight), dw};
  return made;
}

Convolution make(Pass pass, const Operands& operands, const Window2d& window) {
  switch (pass) {
    case Pass::forward: return make_forward(operands, window);
    case Pass::input: return make_backward_input(operands, window);
    case Pass::weight: return make_backward_weight(operands, window);
  }
  return {};
}

// False where the library cannot.
bool by_library(Pass pass, const Operands& operands, const Window2d& window) {
  thread_local CallCache<Key, Convolution> cache;
  Convolution& convolution = cache.find(key_of(pass, operands, window),
                                        [&] { return make(pass, operands, window); });
  if (!convolution.primitive) return false;
  convolution(operands);
  return true;
}

// A channel's bias on every place of its plane.
View bias_plane(const View& bias, const View& y) {
  View plane = y;
  plane.data = bias.data;
  plane.dtype = bias.dtype;
  for (int64_t& stride : plane.strides) stride = 0;
  plane.strides[1] = bias.strides[0];
  return plane;
}

void by_unfold(Pass pass, const Operands& operands, const Window2d& window) {
  const auto& [left, right, result, bias] = operands;
  switch (pass) {
    case Pass::forward:
      unfold_conv2d(result, left, right, window);
      if (bias.data) kernels_here().binary(BinaryOp::add, result, result, bias_plane(bias, result));
      break;
    case Pass::input: unfold_conv2d_backward_input(result, left, right, window); break;
    case Pass::weight: unfold_conv2d_backward_weight(result, left, right, window); break;
  }
}

// The pass with operands of `dtype`, a result of `result_dtype` and plain layouts everywhere.
Operands converted(const Operands& operands, DType dtype, DType result_dtype) {
  const bool in_place = operands.result.dtype == result_dtype && dense(operands.result);
  return {readable(Scratch::left, dtype, operands.left),
          readable(Scratch::right, dtype, operands.right),
          in_place ? normalised(operands.result)
                   : scratch_view(Scratch::result, result_dtype, operands.result),
          operands.bias};
}

void finish(const Operands& done, const Operands& asked) {
  if (done.result.data != asked.result.data) kernels_here().copy(asked.result, done.result);
}

Operands contiguous(const Operands& operands) {
  const auto plain = [](Scratch use, const View& view) {
    return view.contiguous() ? normalised(view) : copied(use, view.dtype, view);
  };
  return {plain(Scratch::left, operands.left), plain(Scratch::right, operands.right),
          operands.result.contiguous()
              ? normalised(operands.result)
              : scratch_view(Scratch::result, operands.result.dtype, operands.result),
          operands.bias};
}

void convolve(Pass pass, const Operands& operands, const Window2d& window) {
  if (operands.result.size() == 0) return;
  if (operands.left.size() == 0 || operands.right.size() == 0) {
    if (operands.bias.data) return kernels_here().copy(operands.result, bias_plane(operands.bias, operands.result));
    return kernels_here().fill(operands.result, 0);
  }
  const DType dtype = operands.left.dtype;
  if (dtype == DType::f32 || dtype == DType::bf16) {
    const Operands native = converted(operands, dtype, operands.result.dtype);
    if (by_library(pass, native, window)) return finish(native, operands);
  }
  if (is_16_bit(dtype)) {
    const Operands wide = converted(operands, DType::f32, DType::f32);
    if (by_library(pass, wide, window)) return finish(wide, operands);
  }
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Operands plain = contiguous(converted(operands, compute, compute));
  by_unfold(pass, plain, window);
  finish(plain, operands);
}

View wide_bias(const View& bias, DType x_dtype) {
  if (!bias.data) return bias;
  const DType dtype = x_dtype == DType::f64 ? DType::f64 : DType::f32;
  return bias.dtype == dtype && bias.strides[0] == 1 ? bias : copied(Scratch::bias, dtype, bias);
}

}  // namespace

void conv2d(View y, View x, View weight, View bias, Window2d window) {
  convolve(Pass::forward, {x, weight, y, wide_bias(bias, x.dtype)}, window);
}

void conv2d_backward_input(View dx, View g, View weight, Window2d window) {
  convolve(Pass::input, {g, weight, dx, {}}, window);
}

void conv2d_backward_weight(View dweight, View dbias, View g, View x, Window2d window) {
  convolve(Pass::weight, {x, g, dweight, {}}, window);
  if (!dbias.data) return;
  View sums = dbias;  // (out) as (1, out, 1, 1)
  sums.ndim = 4;
  const int64_t stride = dbias.strides[0];
  for (int i = 0; i < 4; ++i) sums.shape[i] = 1, sums.strides[i] = 0;
  sums.shape[1] = g.shape[1];
  sums.strides[1] = stride;
  kernels_here().reduce(ReduceOp::sum, sums, g);
}

}  // namespace booster::kernels::cpu
