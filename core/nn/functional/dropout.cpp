#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "kernels/catalogue.h"

#include <cmath>

namespace booster {
namespace {

Tensor dropped(const Tensor& x, double p, kernels::RandomPosition position) {
  const Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device()).dropout(y.view(), untracked::contiguous(x).view(), p, position);
  return y;
}

// Returns the shape (n, channels, 1, ...).
Shape one_per_channel(Shape shape) {
  for (int i = 2; i < shape.ndim(); ++i) shape[i] = 1;
  return shape;
}

}  // namespace

Tensor dropout(const Tensor& input, double p, bool training, Generator& generator) {
  Tensor x = input;
  arguments::floating("dropout", "x", x);
  arguments::probability("dropout", "p", p);
  apply_policy(Op::dropout, {&x});
  if (!training || p == 0) return x;
  if (p == 1) return mul(x, 0.0);
  const kernels::RandomPosition position = generator.take(x.numel());
  // The same position gives the same mask: d(x * m) = g * m.
  return record(dropped(x, p, position), "dropout", {x},
                [p, position](const Tensor& g, Gradients& d) { d[0] = dropped(g, p, position); });
}

Tensor dropout2d(const Tensor& x, double p, bool training, Generator& generator) {
  arguments::floating("dropout2d", "x", x);
  arguments::probability("dropout2d", "p", p);
  check(x.ndim() >= 3, "dropout2d: want (n, channels, ...); got {}", x.shape());
  if (!training || p == 0) return x;
  const Shape channels = one_per_channel(x.shape());
  const TensorOptions options{x.dtype(), x.device()};
  if (p == 1) return mul(x, zeros(channels, options));
  const kernels::RandomPosition position = generator.take(channels.numel());
  return mul(x, dropped(ones(channels, options), p, position));
}

namespace {

// Drops where a draw of this shape, which broadcasts to x, says so.
Tensor alpha_dropped(const Tensor& x, double p, const Shape& draws) {
  const PolicyScope inside(nullptr);
  const double low = -1.7580993408473766;  // selu's limit for large negative x
  if (p == 1) return mul(x, 0.0);
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * low * low));
  const Tensor kept = dropout(ones(draws, {DType::f32, x.device()}), p) * (1 - p);
  const Tensor shift = (1.0 - kept) * (scale * low) - scale * low * p;
  return cast(x * kept * scale + shift, x.dtype());
}

}  // namespace

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  arguments::floating("alpha_dropout", "x", x);
  arguments::probability("alpha_dropout", "p", p);
  return !training || p == 0 ? x : alpha_dropped(x, p, x.shape());
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  arguments::floating("feature_alpha_dropout", "x", x);
  arguments::probability("feature_alpha_dropout", "p", p);
  check(x.ndim() >= 3, "feature_alpha_dropout: want (n, channels, ...); got {}", x.shape());
  return !training || p == 0 ? x : alpha_dropped(x, p, one_per_channel(x.shape()));
}

Tensor drop_path(const Tensor& x, double p, bool training, Generator& generator) {
  arguments::floating("drop_path", "x", x);
  arguments::probability("drop_path", "p", p);
  check(x.ndim() > 0, "drop_path: want a batch; got a tensor without dimensions");
  if (!training || p == 0) return x;
  Shape samples = x.shape();
  for (int i = 1; i < samples.ndim(); ++i) samples[i] = 1;
  const TensorOptions options{x.dtype(), x.device()};
  if (p == 1) return mul(x, zeros(samples, options));
  // Drops whole samples, the same on all ranks that hold parts of them.
  const uint64_t stream = set_random_stream(0);
  const kernels::RandomPosition position = generator.take(x.size(0));
  set_random_stream(stream);
  return mul(x, dropped(ones(samples, options), p, position));
}

}  // namespace booster
