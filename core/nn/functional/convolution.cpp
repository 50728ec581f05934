#include "core/autograd/composed_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/nn/functional/window.h"
#include "core/tensor/channels_last.h"
#include "kernels/arguments/convolution.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const ConvOptions& options) {
  arguments::floating("conv2d", "weight", weight);
  arguments::same_dtype("conv2d", "weight", weight, x);
  arguments::same_dtype("conv2d", "bias", bias, x);
  if (x.ndim() != 4)
    fail("conv2d: wrong number of dimensions; got x {}, want (n, c, h, w)", x.shape());
  if (weight.ndim() != 4)
    fail("conv2d: wrong number of dimensions; got weight {}, want (out, channels / groups, kh, kw)",
         weight.shape());
  const int64_t groups = options.groups;
  check(groups > 0 && x.size(1) % groups == 0 && weight.size(0) % groups == 0,
        "conv2d: groups do not divide the channels; got {} groups for {} channels in, {} out",
        groups, x.size(1), weight.size(0));
  if (weight.size(1) * groups != x.size(1))
    fail(
        "conv2d: channels differ; got x {} and weight {} in {} groups, want weight ({}, {}, kh, "
        "kw)",
        x.shape(), weight.shape(), groups, weight.size(0), x.size(1) / groups);
  arguments::optional_shape("conv2d", "bias", bias, {weight.size(0)});
}

// Returns memory for a sum that a kernel writes; zeros if there is nothing to sum.
Tensor zeros_or_room(const Shape& shape, TensorOptions options, bool empty_sum) {
  return empty_sum ? zeros(shape, options) : empty(shape, options);
}

// Returns memory in x's order. On a GPU, a convolution by adjacent windows without overlap is one
// product with a channels-last result (kernels/cuda/products/patch_convolution.h).
Tensor room_for(const Tensor& x, const Shape& shape, const kernels::Window2d& window) {
  const TensorOptions options{x.dtype(), x.device()};
  const bool is_product = x.device().type == DeviceType::cuda && kernels::are_patches(window);
  return is_product ? empty_channels_last(shape, options) : empty_in_order_of(x, shape, options);
}

// Returns true if the bias is a separate op with its own dtype, as in Paddle.
bool adds_bias_apart(const Tensor& bias) {
  const OpPolicy* policy = current_policy();
  return bias.defined() && policy && policy->bias_apart && policy->device == bias.device().type;
}

// Returns conv2d of x by differentiable functions: products of windows as columns.
Tensor composed_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvOptions& o, const Shape& shape) {
  const Tensor columns = unfold(x, {weight.size(2), weight.size(3)},
                                {.dilation = o.dilation, .padding = o.padding, .stride = o.stride});
  const int64_t out = weight.size(0) / o.groups, each = weight.numel() / weight.size(0);
  const Tensor windows = reshape(columns, {x.size(0), o.groups, each, columns.size(2)});
  const Tensor rows = reshape(weight, {1, o.groups, out, each});
  const Tensor y = reshape(matmul(rows, windows), shape);
  return bias.defined() ? y + reshape(bias, {-1, 1, 1}) : y;
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& filter, const Tensor& offset,
              ConvOptions options) {
  if (adds_bias_apart(offset))
    return add(conv2d(input, filter, {}, options), reshape(offset, {-1, 1, 1}));
  Tensor x = input, weight = filter, bias = offset;
  arguments::floating("conv2d", "x", x);
  apply_policy(Op::conv2d, {&x, &weight, &bias});
  check_arguments(x, weight, bias, options);
  const kernels::Window2d window = window_of({weight.size(2), weight.size(3)}, options.stride,
                                             options.padding, options.dilation, options.groups);
  const Size2d size = output_size("conv2d", x, window);
  const Tensor image = untracked::dense(x), kernel = untracked::contiguous(weight);
  const Shape shape = {x.size(0), weight.size(0), size.height, size.width};
  Tensor y = room_for(image, shape, window);
  if (y.numel() > 0)
    kernels::on(x.device()).conv2d(y.view(), image.view(), kernel.view(), bias.view(), window);
  if (op_recorder) [[unlikely]]
    note_op("conv2d", {x, weight, bias}, {y},
            {{"stride", sides_of(options.stride)},
             {"padding", sides_of(options.padding)},
             {"dilation", sides_of(options.dilation)},
             {"groups", options.groups}});
  return record(
      y, "conv2d", {x, weight, bias},
      twice([x = Saved(image), weight = Saved(kernel), window, options,
             inputs = std::pair(SavedInput(x), SavedInput(weight)), form = InputForm(bias),
             dw_dtype = gradient_dtype(filter, weight),
             db_dtype = gradient_dtype(offset, bias)](const Tensor& g, Gradients& d) {
        if (grad_enabled()) {
          return differentiate_composed(
              {inputs.first, inputs.second, form.zero(g.device())}, {&g, 1}, d,
              [&](const std::vector<Tensor>& in) {
                return std::vector{composed_conv2d(in[0], in[1], in[2], options, g.shape())};
              });
        }
        const Tensor image = x, kernel = weight, upper = untracked::dense(g);
        const auto& table = kernels::on(g.device());
        const bool empty_sum = upper.numel() == 0;
        // dx: each output element spreads its gradient over its window
        if (d.wanted(0)) {
          d[0] = empty_sum ? zeros_like(image) : empty_in_order_of(image, image.dtype());
          if (!empty_sum)
            table.conv2d_backward_input(d[0].view(), upper.view(), kernel.view(), window);
        }
        // dweight: correlation of x with g; dbias: sum of g over n and space
        if (!d.wanted(1) && !d.wanted(2)) return;
        const Tensor dweight =
            zeros_or_room(kernel.shape(), {dw_dtype, kernel.device()}, empty_sum);
        Tensor dbias;
        if (d.wanted(2)) dbias = zeros({kernel.size(0)}, {db_dtype, kernel.device()});
        if (!empty_sum)
          table.conv2d_backward_weight(dweight.view(), dbias.view(), upper.view(), image.view(),
                                       window);
        if (d.wanted(1)) d[1] = dweight;
        if (d.wanted(2)) d[2] = dbias;
      }));
}

namespace {

// Returns the checked height and width of conv_transpose2d's result.
Size2d transposed_size(const Tensor& x, const kernels::Window2d& window, Size2d more) {
  const int64_t added[2] = {more.height, more.width};
  int64_t size[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t stride = window.stride[i], dilation = window.dilation[i];
    check(window.kernel[i] > 0 && stride > 0 && dilation > 0 && window.padding[i] >= 0,
          "conv_transpose2d: wrong window; got kernel {}, stride {}, dilation {}, padding {}",
          window.kernel[i], stride, dilation, window.padding[i]);
    check(added[i] >= 0 && (added[i] < stride || added[i] < dilation),
          "conv_transpose2d: output_padding is out of range; got {}, want less than stride {} or "
          "dilation {}",
          added[i], stride, dilation);
    size[i] = (x.size(2 + i) - 1) * stride - 2 * window.padding[i] +
              dilation * (window.kernel[i] - 1) + added[i] + 1;
    check(size[i] > 0, "conv_transpose2d: padding removes a whole side of {}; got padding {}",
          x.size(2 + i), window.padding[i]);
  }
  return {size[0], size[1]};
}

void check_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups) {
  constexpr const char* op = "conv_transpose2d";
  arguments::floating(op, "weight", weight);
  arguments::same_dtype(op, "weight", weight, x);
  arguments::same_dtype(op, "bias", bias, x);
  if (x.ndim() != 4 || weight.ndim() != 4)
    fail(
        "{}: wrong shapes; got {} and {}, want x (n, c, h, w) and weight (c, out / groups, kh, kw)",
        op, x.shape(), weight.shape());
  check(groups > 0 && x.size(1) % groups == 0,
        "{}: groups do not divide the channels; got {} groups for {}", op, groups, x.size(1));
  check(weight.size(0) == x.size(1), "{}: channels differ; got x {} and weight {}", op, x.shape(),
        weight.shape());
  arguments::optional_shape(op, "bias", bias, {weight.size(1) * groups});
}

// Appends lines of zeros to x, which a convolution of the result would have in addition.
Tensor with_lines_for(const Tensor& x, Size2d size, const kernels::Window2d& window) {
  int64_t more[2];
  const int64_t sides[2] = {size.height, size.width};
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    more[i] = (sides[i] + 2 * window.padding[i] - reach) / window.stride[i] + 1 - x.size(2 + i);
  }
  return more[0] > 0 || more[1] > 0 ? pad(x, {0, more[1], 0, more[0]}) : x;
}

// Reshapes a vector to broadcast along the channels of images.
Tensor along_channels(const Tensor& vector) {
  return untracked::reshape(vector, {1, vector.numel(), 1, 1});
}

// Arguments of spread_windows besides its tensors.
struct Transposed {
  Size2d size;
  kernels::Window2d window;
  DType dw_dtype, db_dtype;  // of the gradients
};

// Returns the same by differentiable functions: windows that add up in an image.
Tensor composed_conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Transposed& how) {
  const auto& window = how.window;
  const auto sides = [](const auto& of) { return Size2d(of[0], of[1]); };
  const int64_t groups = window.groups, in = weight.size(0) / groups;
  const int64_t out = weight.numel() / weight.size(0);  // of each group, times the kernel's area
  const Tensor columns = matmul(transpose(reshape(weight, {1, groups, in, out}), 2, 3),
                                reshape(x, {x.size(0), groups, in, x.size(2) * x.size(3)}));
  const Tensor y = fold(flatten(columns, 1, 2), how.size, {weight.size(2), weight.size(3)},
                        {.dilation = sides(window.dilation),
                         .padding = sides(window.padding),
                         .stride = sides(window.stride)});
  return bias.defined() ? y + reshape(bias, {-1, 1, 1}) : y;
}

// Runs the kernel of conv2d's input gradient as a separate function, and adds the bias.
Tensor spread_windows(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Transposed& how) {
  const Tensor image = untracked::contiguous(x), kernel = untracked::contiguous(weight);
  const Shape shape = {x.size(0), weight.size(1) * how.window.groups, how.size.height,
                       how.size.width};
  const bool empty_sum = x.numel() == 0 || shape.numel() == 0;
  const Tensor y = zeros_or_room(shape, {x.dtype(), x.device()}, empty_sum);
  const auto& table = kernels::on(x.device());
  if (!empty_sum) table.conv2d_backward_input(y.view(), image.view(), kernel.view(), how.window);
  if (bias.defined() && y.numel() > 0)
    table.binary(kernels::BinaryOp::add, y.view(), y.view(),
                 untracked::expand(along_channels(bias), y.shape()).view());
  return record(
      y, "conv_transpose2d", {x, weight, bias},
      twice([x = Saved(image), weight = Saved(kernel), how, empty_sum, form = InputForm(bias),
             inputs = std::pair(SavedInput(x), SavedInput(weight))](const Tensor& g, Gradients& d) {
        if (grad_enabled())
          return differentiate_composed(
              {inputs.first, inputs.second, form.zero(g.device())}, {&g, 1}, d,
              [&](const std::vector<Tensor>& in) {
                return std::vector{composed_conv_transpose2d(in[0], in[1], in[2], how)};
              });
        const Tensor image = x, kernel = weight, upper = untracked::contiguous(g);
        const auto& table = kernels::on(g.device());
        // dx: the convolution of g; dweight: correlation of g with x; dbias: sum of g
        if (d.wanted(0)) {
          d[0] = empty_sum ? zeros_like(image) : empty_like(image);
          if (!empty_sum) table.conv2d(d[0].view(), upper.view(), kernel.view(), {}, how.window);
        }
        if (d.wanted(1)) {
          d[1] = zeros_or_room(kernel.shape(), {how.dw_dtype, kernel.device()}, empty_sum);
          if (!empty_sum)
            table.conv2d_backward_weight(d[1].view(), {}, image.view(), upper.view(), how.window);
        }
        if (!d.wanted(2)) return;
        d[2] = zeros({upper.size(1)}, {how.db_dtype, upper.device()});
        if (upper.numel() > 0)
          table.reduce(kernels::ReduceOp::sum, along_channels(d[2]).view(), upper.view());
      }));
}

}  // namespace

Tensor conv_transpose2d(const Tensor& input, const Tensor& filter, const Tensor& offset,
                        ConvTransposeOptions options) {
  if (adds_bias_apart(offset))
    return add(conv_transpose2d(input, filter, {}, options), reshape(offset, {-1, 1, 1}));
  Tensor x = input, weight = filter, bias = offset;
  arguments::floating("conv_transpose2d", "x", x);
  apply_policy(Op::conv_transpose2d, {&x, &weight, &bias});
  check_transposed(x, weight, bias, options.groups);
  const kernels::Window2d window = window_of({weight.size(2), weight.size(3)}, options.stride,
                                             options.padding, options.dilation, options.groups);
  const Transposed how = {transposed_size(x, window, options.output_padding), window,
                          gradient_dtype(filter, weight), gradient_dtype(offset, bias)};
  const PolicyScope inside(nullptr);
  const Tensor y = spread_windows(with_lines_for(x, how.size, window), weight, bias, how);
  if (op_recorder) [[unlikely]]
    note_op("conv_transpose2d", {x, weight, bias}, {y},
            {{"stride", sides_of(options.stride)},
             {"padding", sides_of(options.padding)},
             {"output_padding", sides_of(options.output_padding)},
             {"dilation", sides_of(options.dilation)},
             {"groups", options.groups}});
  return y;
}

// Convolves signals as images of height 1.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions options) {
  arguments::floating("conv1d", "x", x);
  check(x.ndim() == 3 && weight.defined() && weight.ndim() == 3,
        "conv1d: wrong shapes; got {} and {}, want x (n, channels, length) and weight (out, "
        "channels / groups, kernel)",
        x.shape(), weight.defined() ? weight.shape() : Shape{});
  const Tensor y = conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                          {.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .dilation = {1, options.dilation},
                           .groups = options.groups});
  return squeeze(y, 2);
}

}  // namespace booster
