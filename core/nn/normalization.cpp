// Layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the residual addition in front.
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

// Checks the arguments; returns the shape (rows, normalised elements) that kernels see.
Shape rows_to_normalize(const Tensor& x, const Shape& normalized, const Tensor& weight,
                        const Tensor& bias) {
  const int outer = x.ndim() - normalized.ndim();
  bool fits = normalized.ndim() > 0 && outer >= 0;
  for (int i = 0; fits && i < normalized.ndim(); ++i) fits = x.shape()[outer + i] == normalized[i];
  if (!fits)
    fail("layer_norm: x does not end in the normalised shape; got {}, want it to end in {}",
         x.shape(), normalized);
  arguments::optional_shape("layer_norm", "weight", weight, normalized);
  arguments::optional_shape("layer_norm", "bias", bias, normalized);
  int64_t rows = 1;
  for (int i = 0; i < outer; ++i) rows *= x.shape()[i];
  return {rows, normalized.numel()};
}

Tensor as_rows(const Tensor& x, const Shape& rows) {
  return untracked::reshape(untracked::contiguous(x), rows);
}

// What the backward pass needs of a normalisation of `x`.
struct SavedNorm {
  Saved x, mean, rstd, weight;
  Shape rows;
  DType weight_dtype, bias_dtype;

  // d[weight_at] and the next one get the gradients of weight and bias; returns x's, plus `carried`
  // (may be undefined). With h = (x - mean) rstd and u = g weight:
  //   dx = rstd (u - average(u) - h average(u h)), dweight = sum of g h, dbias = sum of g
  Tensor backward(const Tensor& g, const Tensor& carried, Gradients& d, int weight_at) const {
    const Tensor input = x, scale = weight, center = mean, inverse = rstd;
    Tensor dx = empty_like(input);
    const Shape features = {rows[1]};
    Tensor dweight, dbias;
    if (d.wanted(weight_at)) dweight = empty(features, {weight_dtype, g.device()});
    if (d.wanted(weight_at + 1)) dbias = empty(features, {bias_dtype, g.device()});
    kernels::on(g.device())
        .layer_norm_backward(dx.view(), dweight.view(), dbias.view(), as_rows(g, rows).view(),
                             carried.defined() ? as_rows(carried, rows).view() : kernels::View{},
                             input.view(), center.view(), inverse.view(), scale.view());
    if (dweight.defined()) d[weight_at] = dweight;
    if (dbias.defined()) d[weight_at + 1] = dbias;
    return dx;
  }
};

struct Parameters {
  Tensor weight, bias;  // flat and dense, or undefined
};

Parameters flat(const Tensor& weight, const Tensor& bias) {
  const auto one = [](const Tensor& x) {
    return x.defined() ? untracked::reshape(untracked::contiguous(x), {x.numel()}) : Tensor();
  };
  return {one(weight), one(bias)};
}

DType dtype_or(const Tensor& x, DType otherwise) { return x.defined() ? x.dtype() : otherwise; }

// True where x + branch and the normalisation of the sum run in x's dtype one by one, so that
// doing both at once gives the same numbers.
bool can_fuse(const Tensor& x, const Tensor& branch) {
  if (x.shape() != branch.shape() || promoted(x, branch) != x.dtype()) return false;
  if (!current_policy()) return true;
  return x.dtype() == DType::f32 && dtype_under_policy(Op::add, x.device()) == DType::f32 &&
         dtype_under_policy(Op::layer_norm, x.device()) == DType::f32;
}

}  // namespace

DType dtype_for_linear(const Tensor& x) {
  return x.dtype() == DType::f32 ? dtype_under_policy(Op::linear, x.device()) : x.dtype();
}

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps, std::optional<DType> result) {
  Tensor x = input, gamma = weight, beta = bias;
  arguments::floating("layer_norm", "x", x);
  apply_policy(Op::layer_norm, {&x, &gamma, &beta});
  arguments::parameter_dtype("layer_norm", "weight", gamma, x);
  arguments::parameter_dtype("layer_norm", "bias", beta, x);
  const Shape rows = rows_to_normalize(x, normalized_shape, gamma, beta);
  const Parameters parameters = flat(gamma, beta);
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  const Tensor dense = as_rows(x, rows);
  const Tensor mean = empty({rows[0]}, statistics), rstd = empty({rows[0]}, statistics);
  Tensor y = empty(x.shape(), {result.value_or(x.dtype()), x.device()});
  kernels::on(x.device())
      .layer_norm(as_rows(y, rows).view(), mean.view(), rstd.view(), dense.view(),
                  parameters.weight.view(), parameters.bias.view(), eps);
  SavedNorm saved{Saved(dense),
                  Saved(mean),
                  Saved(rstd),
                  Saved(parameters.weight),
                  rows,
                  dtype_or(gamma, DType::f32),
                  dtype_or(beta, DType::f32)};
  return record(y, "layer_norm", {x, gamma, beta},
                [saved = std::move(saved), shape = x.shape(), normalized_shape](const Tensor& g,
                                                                                Gradients& d) {
                  d[0] = untracked::reshape(saved.backward(g, {}, d, 1), shape);
                  for (int i : {1, 2})
                    if (d[i].defined()) d[i] = untracked::reshape(d[i], normalized_shape);
                });
}

ResidualNorm residual_layer_norm(const Tensor& x, const Tensor& branch,
                                 const Shape& normalized_shape, const Tensor& weight,
                                 const Tensor& bias, double eps, std::optional<DType> result) {
  arguments::floating("residual_layer_norm", "x", x);
  arguments::floating("residual_layer_norm", "branch", branch);
  if (!can_fuse(x, branch)) {
    const Tensor sum = add(x, branch);
    return {sum, layer_norm(sum, normalized_shape, weight, bias, eps, result)};
  }
  Tensor gamma = weight, beta = bias;
  apply_policy(Op::layer_norm, {&gamma, &beta});
  arguments::parameter_dtype("residual_layer_norm", "weight", gamma, x);
  arguments::parameter_dtype("residual_layer_norm", "bias", beta, x);
  const Shape rows = rows_to_normalize(x, normalized_shape, gamma, beta);
  const Parameters parameters = flat(gamma, beta);
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  const Tensor mean = empty({rows[0]}, statistics), rstd = empty({rows[0]}, statistics);
  ResidualNorm out{empty(x.shape(), {x.dtype(), x.device()}),
                   empty(x.shape(), {result.value_or(x.dtype()), x.device()})};
  const Tensor sum = as_rows(out.sum, rows);
  kernels::on(x.device())
      .residual_layer_norm(sum.view(), as_rows(out.normalized, rows).view(), mean.view(),
                           rstd.view(), as_rows(x, rows).view(), as_rows(branch, rows).view(),
                           parameters.weight.view(), parameters.bias.view(), eps);
  SavedNorm saved{Saved(sum),
                  Saved(mean),
                  Saved(rstd),
                  Saved(parameters.weight),
                  rows,
                  dtype_or(gamma, DType::f32),
                  dtype_or(beta, DType::f32)};
  record_many({&out.sum, &out.normalized}, "residual_layer_norm", {x, branch, gamma, beta},
              [saved = std::move(saved), shape = x.shape(), branch_dtype = branch.dtype(),
               normalized_shape](std::span<const Tensor> g, Gradients& d) {
                // Both terms of the sum get its gradient: the one that arrives beside the
                // normalisation plus the normalisation's own.
                const Tensor dsum =
                    g[1].defined() ? untracked::reshape(saved.backward(g[1], g[0], d, 2), shape)
                                   : g[0];
                for (int i : {2, 3})
                  if (d[i].defined()) d[i] = untracked::reshape(d[i], normalized_shape);
                d[0] = dsum;
                if (d.wanted(1)) d[1] = untracked::cast(dsum, branch_dtype);
              });
  return out;
}

}  // namespace booster
