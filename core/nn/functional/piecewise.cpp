// Activations in pieces, with gates or with noise, composed of differentiable functions.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

namespace booster {
namespace {

// Returns f(x), computed in f32 if x has 16 bits and rounded once.
template <class F>
Tensor rounded_once(const char* op, const Tensor& x, F f) {
  arguments::floating(op, "x", x);
  const PolicyScope inside(nullptr);
  return cast(f(cast(x, arguments::statistics_dtype(x))), x.dtype());
}

Tensor constant(const Tensor& x, double value) { return scalar(value, {x.dtype(), x.device()}); }

}  // namespace

Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0, "celu: alpha is 0; want another number");
  return rounded_once("celu", x, [&](const Tensor& wide) {
    return alpha == 1 ? elu(wide) : elu(wide / alpha) * alpha;
  });
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  arguments::floating("hardtanh", "x", x);
  check(low <= high, "hardtanh: the bounds are in the wrong order; got {} and {}", low, high);
  return clamp(x, low, high);
}

Tensor threshold(const Tensor& x, double limit, double value) {
  arguments::floating("threshold", "x", x);
  const PolicyScope inside(nullptr);
  return where(less_equal(x, limit), constant(x, value), x);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  arguments::floating("hardshrink", "x", x);
  const PolicyScope inside(nullptr);
  return where(less_equal(abs(x.detach()), lambda), constant(x, 0), x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  arguments::floating("softshrink", "x", x);
  check(lambda >= 0, "softshrink: lambda is negative; got {}", lambda);
  const PolicyScope inside(nullptr);
  const Tensor nearer = x - sign(x.detach()) * lambda;
  return where(less_equal(abs(x.detach()), lambda), constant(x, 0), nearer);
}

Tensor tanhshrink(const Tensor& x) {
  return rounded_once("tanhshrink", x, [](const Tensor& wide) { return wide - tanh(wide); });
}

Tensor softmin(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

Tensor softplus(const Tensor& x, double beta, double limit) {
  check(beta != 0, "softplus: beta is 0; want another number");
  return rounded_once("softplus", x, [&](const Tensor& wide) {
    const Tensor scaled = wide * beta;
    return where(greater(scaled, limit), wide, softplus(scaled) / beta);
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  arguments::floating("prelu", "weight", weight);
  arguments::floating("prelu", "x", x);
  const int64_t channels = x.ndim() > 1 ? x.size(1) : 1;
  if (weight.numel() != 1 && weight.shape() != Shape{channels})
    fail("prelu: weight has the wrong shape; got {}, want (1) or ({})", weight.shape(), channels);
  Shape along;
  for (int i = 0; i < x.ndim(); ++i) along.push_back(i == 1 ? weight.numel() : 1);
  if (x.ndim() == 1) along[0] = weight.numel();
  const Tensor slopes = reshape(weight, along);
  const PolicyScope inside(nullptr);
  return cast(leaky_relu(x, slopes), x.dtype());
}

Tensor glu(const Tensor& x, int64_t dim) {
  arguments::floating("glu", "x", x);
  const int d = normal_dim("glu", dim, x.ndim());
  check(x.size(d) % 2 == 0, "glu: the dimension has no halves; got size {}", x.size(d));
  return rounded_once("glu", x, [d](const Tensor& wide) {
    const int64_t half = wide.size(d) / 2;
    return narrow(wide, d, 0, half) * sigmoid(narrow(wide, d, half, half));
  });
}

Tensor rrelu(const Tensor& x, double low, double high, bool training) {
  check(low <= high, "rrelu: the bounds are in the wrong order; got {} and {}", low, high);
  if (!training) return leaky_relu(x, (low + high) / 2);
  return rounded_once("rrelu", x, [&](const Tensor& wide) {
    return leaky_relu(wide, uniform(wide.shape(), low, high, {wide.dtype(), wide.device()}));
  });
}

Tensor gumbel_softmax(const Tensor& x, double tau, bool hard, int64_t dim) {
  check(tau > 0, "gumbel_softmax: tau is out of range; got {}, want more than 0", tau);
  return rounded_once("gumbel_softmax", x, [&](const Tensor& wide) {
    const Tensor draws = uniform(wide.shape(), 1e-30, 1, {wide.dtype(), wide.device()});
    const Tensor soft = softmax((wide - log(neg(log(draws)))) / tau, dim);
    if (!hard) return soft;
    const int d = normal_dim("gumbel_softmax", dim, x.ndim());
    const Tensor top = argmax(soft.detach(), d, true);
    const Tensor chosen = scatter(zeros_like(soft), d, top, 1);
    return chosen - soft.detach() + soft;
  });
}

}  // namespace booster
