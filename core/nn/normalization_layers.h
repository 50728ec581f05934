// Normalisation layers: LayerNorm, RMSNorm, GroupNorm, InstanceNorm, BatchNorm. See layers.h.
#pragma once

#include "core/nn/functional.h"
#include "core/nn/module.h"

namespace booster {

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;  // with weight and bias
  bool bias = true;    // false: with a weight only
};
struct LayerNorm : Module {
  using Options = LayerNormOptions;
  LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  LayerNorm(int64_t features, LayerNormOptions options = {})
      : LayerNorm(Shape{features}, options) {}
  std::string options() const override;
  const Shape normalized_shape;
  const double eps;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override {
    return layer_norm(x, normalized_shape, weight, bias, eps);
  }
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // default: rms_norm's
  bool affine = true;              // with a weight
};
struct RMSNorm : Module {
  using Options = RMSNormOptions;
  RMSNorm(const Shape& normalized_shape, RMSNormOptions options = {});
  RMSNorm(int64_t features, RMSNormOptions options = {}) : RMSNorm(Shape{features}, options) {}
  std::string options() const override;
  const Shape normalized_shape;
  const std::optional<double> eps;
  const Tensor weight;

 private:
  Tensor forward(const Tensor& x) override { return rms_norm(x, normalized_shape, weight, eps); }
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
struct GroupNorm : Module {
  using Options = GroupNormOptions;
  GroupNorm(int64_t groups, int64_t channels, GroupNormOptions options = {});
  std::string options() const override;
  const int64_t groups;
  const double eps;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override { return group_norm(x, groups, weight, bias, eps); }
};

// Normalises each channel of each sample of (n, channels, ...); torch's InstanceNorm1d, 2d and 3d
// without running statistics.
struct InstanceNorm : Module {
  using Options = GroupNormOptions;
  explicit InstanceNorm(int64_t channels, GroupNormOptions options = {.affine = false});
  const double eps;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override { return instance_norm(x, weight, bias, eps); }
};

struct BatchNorm2dOptions {
  double eps = 1e-5;
  // Momentum of the running statistics. std::nullopt makes them the plain average over all batches.
  // The layer then reads num_batches_tracked, so it waits for a GPU.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
};
// Base of the batch norms; buffers running_mean, running_var and num_batches_tracked.
struct BatchNorm : Module {
  using Options = BatchNorm2dOptions;
  std::string options() const override;
  const Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  BatchNorm(const char* kind, int64_t channels, BatchNorm2dOptions options);
  Tensor normalized(const Tensor& x);
  // Returns relu(normalized(x) + residual); residual has x's shape or is undefined.
  Tensor normalized_with_relu(const Tensor& x, const Tensor& residual);

 private:
  BatchNormOptions next_batch();  // counts the batch
  double momentum() const;

  BatchNorm2dOptions options_;
};
// (n, channels) or (n, channels, length)
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(int64_t channels, BatchNorm2dOptions options = {})
      : BatchNorm("BatchNorm1d", channels, options) {}

 private:
  Tensor forward(const Tensor& x) override;
};
// (n, channels, h, w)
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(int64_t channels, BatchNorm2dOptions options = {})
      : BatchNorm("BatchNorm2d", channels, options) {}
  // Returns relu((*this)(x) + residual); residual has x's shape or is undefined. It is fused as in
  // batch_norm_relu, unless hooks need the normalisation's own output.
  Tensor with_relu(const Tensor& x, const Tensor& residual = {});

 private:
  Tensor forward(const Tensor& x) override;
};
// (n, channels, d, h, w)
struct BatchNorm3d : BatchNorm {
  explicit BatchNorm3d(int64_t channels, BatchNorm2dOptions options = {})
      : BatchNorm("BatchNorm3d", channels, options) {}

 private:
  Tensor forward(const Tensor& x) override;
};

}  // namespace booster
