// Normalisations of (n, channels, ...) with one scale and shift per channel: batch normalisation
// (Ioffe and Szegedy, 2015) and group normalisation (Wu and He, 2018).
#include "core/autograd/op_policy.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/functional/arguments.h"
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

// batch_norm's images: the GPU's kernels take planes only.
Tensor as_kernels_take(const Tensor& x) {
  return x.device() == Device{} ? untracked::dense(x) : untracked::contiguous(x);
}

// Memory for the gradient of an optional parameter, if it is wanted.
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

// Running statistics as kernels need them: dense, in f32 or f64.
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

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, BatchNormOptions options) {
  Tensor x = input, gamma = weight, beta = bias;
  arguments::floating("batch_norm", "x", x);
  apply_policy(Op::batch_norm, {&x, &gamma, &beta});
  check_channels("batch_norm", x, gamma, beta);
  check_running(x, running_mean, running_var, options.training);
  if (options.training && x.size(1) > 0 && x.numel() / x.size(1) == 1)
    fail(
        "batch_norm: one value per channel has no variance; got {}, want more samples or eval mode",
        x.shape());
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  const Tensor mean = empty({x.size(1)}, statistics), rstd = empty({x.size(1)}, statistics);
  const Tensor values = as_kernels_take(x), scale = dense(gamma), shift = dense(beta);
  const Tensor center = kernel_statistics(running_mean), spread = kernel_statistics(running_var);
  Tensor y = empty_in_order_of(values, x.dtype());
  const bool is_empty = x.numel() == 0;
  if (!is_empty)
    kernels::on(x.device())
        .batch_norm(y.view(), mean.view(), rstd.view(), values.view(), scale.view(), shift.view(),
                    center.view(), spread.view(), options.training, options.momentum, options.eps);
  if (options.training && !is_empty) {
    update(running_mean, center);
    update(running_var, spread);
  }
  // With h = (x - mean) rstd: dweight = sum of g h, dbias = sum of g, and dx = g weight rstd, less
  // its part along 1 and h in training, where the statistics depend on x.
  return record(y, "batch_norm", {x, gamma, beta},
                [x = Saved(values), mean = Saved(mean), rstd = Saved(rstd), gamma = Saved(scale),
                 beta = Saved(shift), training = options.training](const Tensor& g, Gradients& d) {
                  const Tensor dx = room_in_place_of(g, x.get());
                  const Tensor dweight = room_for(d, 1, gamma), dbias = room_for(d, 2, beta);
                  if (g.numel() > 0)
                    kernels::on(g.device())
                        .batch_norm_backward(dx.view(), dweight.view(), dbias.view(),
                                             untracked::dense_in_order_of(x.get(), g).view(),
                                             x.get().view(), mean.get().view(), rstd.get().view(),
                                             gamma.get().view(), training);
                  d[0] = dx;
                  if (dweight.defined()) d[1] = g.numel() > 0 ? dweight : zeros_like(dweight);
                  if (dbias.defined()) d[2] = g.numel() > 0 ? dbias : zeros_like(dbias);
                });
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
  const Tensor mean = empty({count}, statistics), rstd = empty({count}, statistics);
  const Tensor values = untracked::contiguous(x), scale = dense(gamma), shift = dense(beta);
  Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device())
      .group_norm(y.view(), mean.view(), rstd.view(), values.view(), scale.view(), shift.view(),
                  groups, eps);
  // As layer_norm's, over each group, with u = g weight of the channel.
  return record(y, "group_norm", {x, gamma, beta},
                [x = Saved(values), mean = Saved(mean), rstd = Saved(rstd), gamma = Saved(scale),
                 beta = Saved(shift), groups](const Tensor& g, Gradients& d) {
                  const Tensor dx = empty_like(x.get());
                  const Tensor dweight = room_for(d, 1, gamma), dbias = room_for(d, 2, beta);
                  kernels::on(g.device())
                      .group_norm_backward(dx.view(), dweight.view(), dbias.view(), dense(g).view(),
                                           x.get().view(), mean.get().view(), rstd.get().view(),
                                           gamma.get().view(), groups);
                  d[0] = dx;
                  if (dweight.defined()) d[1] = dweight;
                  if (dbias.defined()) d[2] = dbias;
                });
}

}  // namespace booster
