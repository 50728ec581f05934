// Normalisations of (n, channels, ...) with one scale and shift per channel: batch normalisation
// (Ioffe and Szegedy, 2015) and group normalisation (Wu and He, 2018).
#include "core/autograd/composed_gradients.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/tensor/channels_last.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

void check_channels(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.ndim() < 2) fail("{}: too few dimensions; got {}, want (n, channels, ...)", op, x.shape());
  const Shape channels = {x.size(1)};
  arguments::optional_shape(op, "weight", weight, channels);
  arguments::optional_shape(op, "bias", bias, channels);
  arguments::parameter_dtype(op, "weight", weight, x);
  arguments::parameter_dtype(op, "bias", bias, x);
}

Tensor dense(const Tensor& x) { return x.defined() ? untracked::contiguous(x) : x; }

// Returns batch_norm's images as kernels take them; the GPU's take only planes.
Tensor as_kernels_take(const Tensor& x) {
  return x.device() == Device{} ? untracked::dense(x) : untracked::contiguous(x);
}

// Returns memory for the gradient of an optional parameter, if it is wanted.
Tensor room_for(const Gradients& d, int i, const Saved& parameter) {
  return d.wanted(i) ? empty_like(parameter.get()) : Tensor();
}

void check_running(const Tensor& x, const Tensor& mean, const Tensor& var, bool training) {
  arguments::optional_shape("batch_norm", "running_mean", mean, {x.size(1)});
  arguments::optional_shape("batch_norm", "running_var", var, {x.size(1)});
  arguments::parameter_dtype("batch_norm", "running_mean", mean, x);
  arguments::parameter_dtype("batch_norm", "running_var", var, x);
  check(mean.defined() == var.defined() && (training || mean.defined()),
        "batch_norm: running statistics are incomplete; want running_mean and running_var{}",
        training ? ", or neither" : " outside training");
}

// Returns running statistics as kernels need them: dense, in f32 or f64.
Tensor kernel_statistics(const Tensor& running) {
  if (!running.defined() || !is_16_bit(running.dtype())) return dense(running);
  return untracked::cast(running, DType::f32);
}

// Copies updated numbers back if kernel_statistics had to copy.
void update(Tensor running, const Tensor& updated) {
  if (!running.defined()) return;
  const NoGradGuard no_grad;
  if (updated.same_body(running)) {
    running.bump_version();
  } else {
    running.copy_(updated);
  }
}

// Returns true if the call updates running statistics: each batch once, even if a checkpoint runs
// it again.
bool updates_running(const BatchNormOptions& options) {
  return options.training && !is_second_run();
}

// A call of batch_norm or batch_norm_relu: arguments as the kernels take them, memory for results.
struct BatchNormCall {
  Tensor x, gamma, beta;             // under the policy; on the tape
  Tensor values, scale, shift;       // the same, dense
  Tensor running_mean, running_var;  // the caller's, to be updated
  Tensor center, spread;             // the same, as kernels take them
  Tensor y, mean, rstd;
  BatchNormOptions options;

  BatchNormCall(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                const Tensor& weight, const Tensor& bias, const BatchNormOptions& options);
  bool is_empty() const { return x.numel() == 0; }
  // After the kernel.
  void update_running() const {
    if (!updates_running(options) || is_empty()) return;
    update(running_mean, center);
    update(running_var, spread);
  }
};

BatchNormCall::BatchNormCall(const Tensor& input, const Tensor& running_mean,
                             const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                             const BatchNormOptions& options)
    : x(input),
      gamma(weight),
      beta(bias),
      running_mean(running_mean),
      running_var(running_var),
      options(options) {
  arguments::floating("batch_norm", "x", x);
  apply_policy(Op::batch_norm, {&x, &gamma, &beta});
  check_channels("batch_norm", x, gamma, beta);
  check_running(x, running_mean, running_var, options.training);
  if (options.training && x.size(1) > 0 && x.numel() / x.size(1) == 1)
    fail(
        "batch_norm: one value per channel has no variance; got {}, want more samples or eval mode",
        x.shape());
  values = as_kernels_take(x);
  scale = dense(gamma);
  shift = dense(beta);
  if (!options.training || updates_running(options)) {
    center = kernel_statistics(running_mean);
    spread = kernel_statistics(running_var);
  }
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  mean = empty({x.size(1)}, {DType::f64, x.device()});
  rstd = empty({x.size(1)}, statistics);
  y = empty_in_order_of(values, x.dtype());
}

// Returns true if relu, and a sum before it, would read batch_norm's result without a cast or an
// observer.
bool relu_takes_any() {
  const OpPolicy* policy = current_policy();
  const auto takes_any = [&](Op op) { return (*policy)[op] == OpClass::untouched; };
  return current_observer() == nullptr && !op_recorder &&
         (!policy || (takes_any(Op::relu) && takes_any(Op::add) && !policy->asks_who_made));
}

// Returns true if the kernel with relu supports the call.
bool is_fused(const BatchNormCall& call, const Tensor& residual) {
  const bool fits = !residual.defined() ||
                    (residual.shape() == call.x.shape() && residual.dtype() == call.x.dtype() &&
                     residual.device() == call.x.device());
  return fits && !call.is_empty() && call.x.device() == Device{} && is_channels_last(call.values);
}

// --- The same by differentiable functions, for second derivatives.

// Returns a vector of channels that broadcasts to x (n, channels, ...).
Tensor along_channels(const Tensor& vector, const Tensor& x) {
  Shape shape = x.shape();
  for (int i = 0; i < shape.ndim(); ++i) shape[i] = i == 1 ? -1 : 1;
  return reshape(cast(vector, x.dtype()), shape);
}

Tensor standardized_over(const Tensor& x, const std::vector<int64_t>& dims, double eps) {
  const Tensor away = x - mean(x, dims, true);
  return away * rsqrt(mean(square(away), dims, true) + eps);
}

// Standardises each channel over the batch.
Tensor standardized_channels(const Tensor& x, double eps) {
  std::vector<int64_t> dims = {0};
  for (int i = 2; i < x.ndim(); ++i) dims.push_back(i);
  return standardized_over(x, dims, eps);
}

// Standardises each group of channels of each sample.
Tensor standardized_groups(const Tensor& x, int64_t groups, double eps) {
  const Tensor rows = reshape(x, {x.size(0), groups, x.numel() / (x.size(0) * groups)});
  return reshape(standardized_over(rows, {2}, eps), x.shape());
}

Tensor scaled(const Tensor& x, const Tensor& weight, const Tensor& bias, DType dtype) {
  Tensor y = weight.defined() ? x * along_channels(weight, x) : x;
  if (bias.defined()) y = y + along_channels(bias, x);
  return cast(y, dtype);
}

// Normalises. The gradients, with h = (x - mean) rstd: dweight = sum of g h, dbias = sum of g, dx =
// g weight rstd. In training, where the statistics depend on x, dx loses its parts along 1 and h.
Tensor normalized(const BatchNormCall& call) {
  if (!call.is_empty())
    kernels::on(call.x.device())
        .batch_norm(call.y.view(), call.mean.view(), call.rstd.view(), call.values.view(),
                    call.scale.view(), call.shift.view(), call.center.view(), call.spread.view(),
                    call.options.training, call.options.momentum, call.options.eps);
  call.update_running();
  if (op_recorder) [[unlikely]]
    note_op("batch_norm", {call.x, call.gamma, call.beta, call.running_mean, call.running_var},
            {call.y}, {{"training", call.options.training}, {"eps", call.options.eps}});
  return record(
      call.y, "batch_norm", {call.x, call.gamma, call.beta},
      twice([x = Saved(call.values), mean = Saved(call.mean), rstd = Saved(call.rstd),
             gamma = Saved(call.scale), beta = Saved(call.shift), training = call.options.training,
             eps = call.options.eps, inputs = std::pair(SavedInput(call.x), SavedInput(call.gamma)),
             form = InputForm(call.beta)](const Tensor& g, Gradients& d) {
        if (grad_enabled())
          return differentiate_composed(
              {inputs.first, inputs.second, form.zero(g.device())}, {&g, 1}, d,
              [&](const std::vector<Tensor>& in) {
                const Tensor wide = cast(in[0], rstd.get().dtype());
                const Tensor normal =
                    training ? standardized_channels(wide, eps)
                             : (wide - along_channels(mean, wide)) * along_channels(rstd, wide);
                return std::vector{scaled(normal, in[1], in[2], in[0].dtype())};
              });
        const Tensor dx = room_in_place_of(g, x.get());
        const Tensor dweight = room_for(d, 1, gamma), dbias = room_for(d, 2, beta);
        if (g.numel() > 0)
          kernels::on(g.device())
              .batch_norm_backward(dx.view(), dweight.view(), dbias.view(),
                                   untracked::dense_in_order_of(x.get(), g).view(), x.get().view(),
                                   mean.get().view(), rstd.get().view(), gamma.get().view(),
                                   training);
        d[0] = dx;
        if (dweight.defined()) d[1] = g.numel() > 0 ? dweight : zeros_like(dweight);
        if (dbias.defined()) d[2] = g.numel() > 0 ? dbias : zeros_like(dbias);
      }));
}

// Does the same for relu(normalized + residual). g counts where the sum is above zero, and is the
// residual's gradient there.
Tensor normalized_with_relu(const BatchNormCall& call, const Tensor& residual) {
  const Tensor added =
      residual.defined() ? untracked::dense_in_order_of(call.values, residual) : Tensor();
  kernels::on(call.x.device())
      .batch_norm_relu(call.y.view(), call.mean.view(), call.rstd.view(), call.values.view(),
                       added.view(), call.scale.view(), call.shift.view(), call.center.view(),
                       call.spread.view(), call.options.training, call.options.momentum,
                       call.options.eps);
  call.update_running();
  return record(call.y, "batch_norm_relu", {call.x, call.gamma, call.beta, residual},
                [y = added.defined() ? Saved(call.y) : Saved(), x = Saved(call.values),
                 mean = Saved(call.mean), rstd = Saved(call.rstd), gamma = Saved(call.scale),
                 beta = Saved(call.shift), training = call.options.training,
                 has_residual = added.defined()](const Tensor& g, Gradients& d) {
                  const Tensor values = x;
                  const Tensor dresidual = has_residual ? room_in_place_of(g, values) : Tensor();
                  const Tensor dx = has_residual ? empty_in_order_of(values, values.dtype())
                                                 : room_in_place_of(g, values);
                  const Tensor dweight = room_for(d, 1, gamma), dbias = room_for(d, 2, beta);
                  kernels::on(g.device())
                      .batch_norm_relu_backward(
                          dx.view(), dresidual.view(), dweight.view(), dbias.view(),
                          untracked::dense_in_order_of(values, g).view(), y.get().view(),
                          values.view(), mean.get().view(), rstd.get().view(), gamma.get().view(),
                          beta.get().view(), training);
                  d[0] = dx;
                  if (dweight.defined()) d[1] = dweight;
                  if (dbias.defined()) d[2] = dbias;
                  if (has_residual) d[3] = dresidual;
                });
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, BatchNormOptions options) {
  const BatchNormCall call(input, running_mean, running_var, weight, bias, options);
  return normalized(call);
}

Tensor batch_norm_relu(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, BatchNormOptions options,
                       const Tensor& residual) {
  const BatchNormCall call(input, running_mean, running_var, weight, bias, options);
  if (relu_takes_any() && is_fused(call, residual)) return normalized_with_relu(call, residual);
  const Tensor y = normalized(call);
  return relu(residual.defined() ? y + residual : y);
}

Tensor group_norm(const Tensor& input, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  Tensor x = input, gamma = weight, beta = bias;
  arguments::floating("group_norm", "x", x);
  apply_policy(Op::group_norm, {&x, &gamma, &beta});
  check_channels("group_norm", x, gamma, beta);
  check(groups > 0 && x.size(1) % groups == 0,
        "group_norm: groups do not divide the channels; got {} groups of {} channels", groups,
        x.size(1));
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  const int64_t count = x.size(0) * groups;
  const Tensor mean = empty({count}, {DType::f64, x.device()}), rstd = empty({count}, statistics);
  const Tensor values = untracked::contiguous(x), scale = dense(gamma), shift = dense(beta);
  Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device())
      .group_norm(y.view(), mean.view(), rstd.view(), values.view(), scale.view(), shift.view(),
                  groups, eps);
  // The formula is layer_norm's, over each group, with u = g weight of the channel.
  if (op_recorder) [[unlikely]]
    note_op("group_norm", {x, gamma, beta}, {y}, {{"groups", groups}, {"eps", eps}});
  return record(
      y, "group_norm", {x, gamma, beta},
      twice([x = Saved(values), mean = Saved(mean), rstd = Saved(rstd), gamma = Saved(scale),
             beta = Saved(shift), groups, eps, form = InputForm(beta),
             inputs = std::pair(SavedInput(x), SavedInput(gamma))](const Tensor& g, Gradients& d) {
        if (grad_enabled())
          return differentiate_composed(
              {inputs.first, inputs.second, form.zero(g.device())}, {&g, 1}, d,
              [&](const std::vector<Tensor>& in) {
                const Tensor wide = cast(in[0], rstd.get().dtype());
                const Tensor normal = standardized_groups(wide, groups, eps);
                return std::vector{scaled(normal, in[1], in[2], in[0].dtype())};
              });
        const Tensor dx = empty_like(x.get());
        const Tensor dweight = room_for(d, 1, gamma), dbias = room_for(d, 2, beta);
        kernels::on(g.device())
            .group_norm_backward(dx.view(), dweight.view(), dbias.view(), dense(g).view(),
                                 x.get().view(), mean.get().view(), rstd.get().view(),
                                 gamma.get().view(), groups);
        d[0] = dx;
        if (dweight.defined()) d[1] = dweight;
        if (dbias.defined()) d[2] = dbias;
      }));
}

}  // namespace booster
