// Normalisations without running statistics, distances of vectors and products of two inputs,
// composed of differentiable functions.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

namespace booster {
namespace {

Tensor in_statistics_dtype(const Tensor& x) { return cast(x, arguments::statistics_dtype(x)); }

}  // namespace

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  arguments::floating("instance_norm", "x", x);
  if (x.ndim() < 3) fail("instance_norm: want (n, channels, ...); got {}", x.shape());
  return group_norm(x, x.size(1), weight, bias, eps);
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k) {
  arguments::floating("local_response_norm", "x", x);
  if (x.ndim() < 3) fail("local_response_norm: want (n, channels, ...); got {}", x.shape());
  check(size >= 1, "local_response_norm: size is out of range; got {}, want at least 1", size);
  const PolicyScope inside(nullptr);
  const Tensor wide = in_statistics_dtype(x);
  const Tensor squares = pad(transpose(square(wide), 1, -1), {size / 2, (size - 1) / 2});
  Tensor sums = narrow(squares, -1, 0, x.size(1));
  for (int64_t i = 1; i < size; ++i) sums = sums + narrow(squares, -1, i, x.size(1));
  const Tensor means = transpose(sums, 1, -1) * (alpha / static_cast<double>(size));
  return cast(wide / pow(means + k, beta), x.dtype());
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  arguments::floating("normalize", "x", x);
  const PolicyScope inside(nullptr);
  const Tensor wide = in_statistics_dtype(x);
  return cast(wide / clamp(norm(wide, {dim}, true, p), eps, {}), x.dtype());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  arguments::floating("cosine_similarity", "a", a);
  arguments::floating("cosine_similarity", "b", b);
  const PolicyScope inside(nullptr);
  const Tensor x = in_statistics_dtype(a), y = in_statistics_dtype(b);
  const Tensor sizes = clamp(norm(x, {dim}, true), eps, {}) * clamp(norm(y, {dim}, true), eps, {});
  return cast(sum(x * y / sizes, {dim}), promote(a.dtype(), b.dtype()));
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keep_dim) {
  arguments::floating("pairwise_distance", "a", a);
  arguments::floating("pairwise_distance", "b", b);
  const PolicyScope inside(nullptr);
  const Tensor distance =
      norm(in_statistics_dtype(a) - in_statistics_dtype(b) + eps, {-1}, keep_dim, p);
  return cast(distance, promote(a.dtype(), b.dtype()));
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  arguments::floating("bilinear", "a", a);
  arguments::floating("bilinear", "b", b);
  arguments::floating("bilinear", "weight", weight);
  if (weight.ndim() != 3 || a.ndim() < 1 || a.size(-1) != weight.size(1) || b.ndim() < 1 ||
      b.size(-1) != weight.size(2))
    fail(
        "bilinear: sizes do not match; got {}, {} and weight {}, want (..., i), (..., j) and "
        "(out, i, j)",
        a.shape(), b.shape(), weight.shape());
  arguments::optional_shape("bilinear", "bias", bias, {weight.size(0)});
  const Tensor y = einsum("...i,oij,...j->...o", {a, weight, b});
  return bias.defined() ? y + bias : y;
}

}  // namespace booster
