#include "core/nn/normalization_layers.h"

#include "core/autograd/leaf_gradients.h"

namespace booster {
namespace {

// Make parameter tensors; undefined if the layer has none.
Tensor ones_if(bool wanted, const Shape& shape) { return wanted ? ones(shape) : Tensor(); }
Tensor zeros_if(bool wanted, const Shape& shape) { return wanted ? zeros(shape) : Tensor(); }

void check_4d(const Tensor& x) {
  if (x.ndim() != 4)
    fail("BatchNorm2d: wrong number of dimensions; got {}, want (n, c, h, w)", x.shape());
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, LayerNormOptions options)
    : Module("LayerNorm"),
      normalized_shape(normalized_shape),
      eps(options.eps),
      weight(add_parameter("weight", ones_if(options.affine, normalized_shape), Role::layer_norm)),
      bias(add_parameter("bias", zeros_if(options.affine && options.bias, normalized_shape),
                         Role::layer_norm)) {}
std::string LayerNorm::options() const { return fmt::format("{}, eps={}", normalized_shape, eps); }

RMSNorm::RMSNorm(const Shape& normalized_shape, RMSNormOptions options)
    : Module("RMSNorm"),
      normalized_shape(normalized_shape),
      eps(options.eps),
      weight(add_parameter("weight", ones_if(options.affine, normalized_shape), Role::layer_norm)) {
}
std::string RMSNorm::options() const {
  const std::string shape = fmt::format("{}", normalized_shape);
  return eps ? fmt::format("{}, eps={}", shape, *eps) : shape;
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, GroupNormOptions options)
    : Module("GroupNorm"),
      groups(groups),
      eps(options.eps),
      weight(add_parameter("weight", ones_if(options.affine, {channels}))),
      bias(add_parameter("bias", zeros_if(options.affine, {channels}))) {
  check(groups > 0 && channels % groups == 0,
        "GroupNorm: groups do not divide the channels; got {} groups of {} channels", groups,
        channels);
}
std::string GroupNorm::options() const { return fmt::format("{}, eps={}", groups, eps); }

InstanceNorm::InstanceNorm(int64_t channels, GroupNormOptions options)
    : Module("InstanceNorm"),
      eps(options.eps),
      weight(add_parameter("weight", ones_if(options.affine, {channels}))),
      bias(add_parameter("bias", zeros_if(options.affine, {channels}))) {}

BatchNorm::BatchNorm(const char* kind, int64_t channels, BatchNorm2dOptions options)
    : Module(kind),
      weight(add_parameter("weight", ones_if(options.affine, {channels}), Role::batch_norm)),
      bias(add_parameter("bias", zeros_if(options.affine, {channels}), Role::batch_norm)),
      running_mean(add_buffer("running_mean", zeros_if(options.track_running_stats, {channels}),
                              Role::batch_norm)),
      running_var(add_buffer("running_var", ones_if(options.track_running_stats, {channels}),
                             Role::batch_norm)),
      num_batches_tracked(
          add_buffer("num_batches_tracked",
                     options.track_running_stats ? zeros({}, {.dtype = DType::i64}) : Tensor(),
                     Role::batch_count)),
      options_(options) {}
// Returns the momentum; any value if there are no running statistics.
double BatchNorm::momentum() const {
  if (options_.momentum) return *options_.momentum;
  return training() && num_batches_tracked.defined() ? 1 / num_batches_tracked.item() : 0;
}
BatchNormOptions BatchNorm::next_batch() {
  const bool of_batch = training() || !options_.track_running_stats;
  if (training() && num_batches_tracked.defined() && !is_second_run())
    Tensor(num_batches_tracked).add_(ones({}, {DType::i64, num_batches_tracked.device()}));
  return {.training = of_batch, .momentum = momentum(), .eps = options_.eps};
}
Tensor BatchNorm::normalized(const Tensor& x) {
  return batch_norm(x, running_mean, running_var, weight, bias, next_batch());
}
Tensor BatchNorm::normalized_with_relu(const Tensor& x, const Tensor& residual) {
  return batch_norm_relu(x, running_mean, running_var, weight, bias, next_batch(), residual);
}
std::string BatchNorm::options() const {
  return fmt::format("eps={}, momentum={}", options_.eps,
                     options_.momentum ? fmt::format("{}", *options_.momentum) : "None");
}
Tensor BatchNorm1d::forward(const Tensor& x) {
  if (x.ndim() != 2 && x.ndim() != 3)
    fail("BatchNorm1d: wrong number of dimensions; got {}, want (n, c) or (n, c, l)", x.shape());
  return normalized(x);
}
Tensor BatchNorm2d::forward(const Tensor& x) {
  check_4d(x);
  return normalized(x);
}
Tensor BatchNorm3d::forward(const Tensor& x) {
  if (x.ndim() != 5)
    fail("BatchNorm3d: wrong number of dimensions; got {}, want (n, c, d, h, w)", x.shape());
  return normalized(x);
}
Tensor BatchNorm2d::with_relu(const Tensor& x, const Tensor& residual) {
  if (must_be_called()) {
    const Tensor y = (*this)(x);
    return relu(residual.defined() ? y + residual : y);
  }
  check_4d(x);
  return normalized_with_relu(x, residual);
}

}  // namespace booster
