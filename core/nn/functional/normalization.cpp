// Layer normalisation (Ba, Kiros and Hinton, 2016), alone and fused with the preceding residual
// addition.
#include "core/autograd/composed_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/policy_dtypes.h"
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

// Data for the backward pass of a normalisation of `x`.
struct SavedNorm {
  Saved x, mean, rstd, weight;
  Shape rows, normalized;
  DType weight_dtype, bias_dtype;

  // Writes the gradients of weight and bias to d[weight_at] and the next one. Returns x's, plus
  // `carried` (may be undefined). With h = (x - mean) rstd and u = g weight:
  //   dx = rstd (u - average(u) - h average(u h)), dweight = sum of g h, dbias = sum of g
  Tensor backward(const Tensor& g, const Tensor& carried, Gradients& d, int weight_at) const {
    const Tensor input = x, scale = weight, center = mean, inverse = rstd;
    Tensor dx = room_in_place_of(carried, input);
    Tensor dweight, dbias;
    if (d.wanted(weight_at)) dweight = empty({rows[1]}, {weight_dtype, g.device()});
    if (d.wanted(weight_at + 1)) dbias = empty({rows[1]}, {bias_dtype, g.device()});
    kernels::on(g.device())
        .layer_norm_backward(dx.view(), dweight.view(), dbias.view(), as_rows(g, rows).view(),
                             carried.defined() ? as_rows(carried, rows).view() : kernels::View{},
                             input.view(), center.view(), inverse.view(), scale.view());
    if (dweight.defined()) d[weight_at] = untracked::reshape(dweight, normalized);
    if (dbias.defined()) d[weight_at + 1] = untracked::reshape(dbias, normalized);
    return dx;
  }
};

Tensor flat(const Tensor& x) {
  return x.defined() ? untracked::reshape(untracked::contiguous(x), {x.numel()}) : Tensor();
}

DType dtype_or(const Tensor& x, DType otherwise) { return x.defined() ? x.dtype() : otherwise; }

// The checked parameters of a normalisation and the memory for its statistics.
struct Normalization {
  Shape rows, normalized;
  Tensor weight, bias;  // flat and dense, or undefined
  DType weight_dtype, bias_dtype;
  Tensor mean, rstd;

  SavedNorm saved(const Tensor& x) const {
    return {Saved(x), Saved(mean), Saved(rstd),  Saved(weight),
            rows,     normalized,  weight_dtype, bias_dtype};
  }
};

Normalization normalization_of(const char* what, const Tensor& x, const Shape& normalized,
                               const Tensor& weight, const Tensor& bias) {
  arguments::parameter_dtype(what, "weight", weight, x);
  arguments::parameter_dtype(what, "bias", bias, x);
  const Shape rows = rows_to_normalize(x, normalized, weight, bias);
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  return {.rows = rows,
          .normalized = normalized,
          .weight = flat(weight),
          .bias = flat(bias),
          .weight_dtype = dtype_or(weight, DType::f32),
          .bias_dtype = dtype_or(bias, DType::f32),
          .mean = empty({rows[0]}, {DType::f64, x.device()}),
          .rstd = empty({rows[0]}, statistics)};
}

// Returns true if x + branch and the sum's normalisation would both run in x's dtype. Fusing them
// then gives the same values.
bool can_fuse(const Tensor& x, const Tensor& branch) {
  if (x.shape() != branch.shape() || promoted(x, branch) != x.dtype()) return false;
  if (!current_policy()) return true;
  return x.dtype() == DType::f32 && dtype_under_policy(Op::add, x.device()) == DType::f32 &&
         dtype_under_policy(Op::layer_norm, x.device()) == DType::f32;
}

// Returns layer_norm of x by differentiable functions. `rows` is the shape that kernels see.
Tensor composed_layer_norm(const Tensor& x, const Shape& rows, const Tensor& weight,
                           const Tensor& bias, double eps) {
  const DType dtype = arguments::statistics_dtype(x);
  const Tensor wide = reshape(cast(x, dtype), rows);
  const Tensor away = wide - mean(wide, {1}, true);
  Tensor y = away * rsqrt(mean(square(away), {1}, true) + eps);
  if (weight.defined()) y = y * cast(reshape(weight, {rows[1]}), dtype);
  if (bias.defined()) y = y + cast(reshape(bias, {rows[1]}), dtype);
  return reshape(y, x.shape());
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
  const Normalization norm = normalization_of("layer_norm", x, normalized_shape, gamma, beta);
  const Tensor dense = as_rows(x, norm.rows);
  Tensor y = empty(x.shape(), {result.value_or(x.dtype()), x.device()});
  kernels::on(x.device())
      .layer_norm(as_rows(y, norm.rows).view(), norm.mean.view(), norm.rstd.view(), dense.view(),
                  norm.weight.view(), norm.bias.view(), eps);
  if (op_recorder) [[unlikely]]
    note_op("layer_norm", {x, gamma, beta}, {y}, {{"dims", normalized_shape.ndim()}, {"eps", eps}});
  return record(
      y, "layer_norm", {x, gamma, beta},
      twice([saved = norm.saved(dense), shape = x.shape(), eps, x = SavedInput(x),
             gamma = SavedInput(gamma), form = InputForm(beta)](const Tensor& g, Gradients& d) {
        if (grad_enabled())
          return differentiate_composed(
              {x, gamma, form.zero(g.device())}, {&g, 1}, d, [&](const std::vector<Tensor>& in) {
                return std::vector{composed_layer_norm(in[0], saved.rows, in[1], in[2], eps)};
              });
        d[0] = untracked::reshape(saved.backward(g, {}, d, 1), shape);
      }));
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
  const Normalization norm =
      normalization_of("residual_layer_norm", x, normalized_shape, gamma, beta);
  const Shape& rows = norm.rows;
  ResidualNorm out{empty(x.shape(), {x.dtype(), x.device()}),
                   empty(x.shape(), {result.value_or(x.dtype()), x.device()})};
  const Tensor sum = as_rows(out.sum, rows);
  kernels::on(x.device())
      .residual_layer_norm(sum.view(), as_rows(out.normalized, rows).view(), norm.mean.view(),
                           norm.rstd.view(), as_rows(x, rows).view(), as_rows(branch, rows).view(),
                           norm.weight.view(), norm.bias.view(), eps);
  if (op_recorder) [[unlikely]]
    note_op("residual_layer_norm", {x, branch, gamma, beta}, {out.sum, out.normalized},
            {{"dims", normalized_shape.ndim()}, {"eps", eps}});
  record_many({&out.sum, &out.normalized}, "residual_layer_norm", {x, branch, gamma, beta},
              [saved = norm.saved(sum), shape = x.shape(), branch_dtype = branch.dtype()](
                  std::span<const Tensor> g, Gradients& d) {
                // Both terms of the sum get its gradient: the one that arrives directly plus the
                // one through the normalisation.
                const Tensor dsum =
                    g[1].defined() ? untracked::reshape(saved.backward(g[1], g[0], d, 2), shape)
                                   : g[0];
                d[0] = dsum;
                if (d.wanted(1)) d[1] = untracked::cast(dsum, branch_dtype);
              });
  return out;
}

namespace {

struct WeightForm {
  Shape shape;
  DType dtype;
};

// The gradients of rms_norm, on the tape. `dims` are the normalised dimensions. With u = g weight:
//   dx = rstd (u - x rstd^2 average(u x)), dweight = sum of g x rstd
void rms_norm_gradients(const Tensor& g, const Tensor& x, const Tensor& weight,
                        const WeightForm& form, double eps, const std::vector<int64_t>& dims,
                        Gradients& d) {
  const PolicyScope inside(nullptr);
  const DType dtype = arguments::statistics_dtype(x);
  const Tensor wide_g = cast(g, dtype), wide_x = cast(x, dtype);
  const Tensor rstd = rsqrt(add(mean(square(wide_x), dims, true), eps));
  if (d.wanted(0)) {
    const Tensor u = weight.defined() ? mul(wide_g, cast(weight, dtype)) : wide_g;
    const Tensor pull = mul(mean(mul(u, wide_x), dims, true), square(rstd));
    d[0] = cast(mul(rstd, sub(u, mul(wide_x, pull))), x.dtype());
  }
  if (!d.wanted(1)) return;
  const Tensor each = mul(mul(wide_g, wide_x), rstd);
  const int64_t columns = form.shape.numel(), rows = columns > 0 ? x.numel() / columns : 0;
  d[1] = cast(reshape(sum(reshape(each, {rows, columns}), {0}), form.shape), form.dtype);
}

void check_rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight) {
  const int count = normalized.ndim(), first = x.ndim() - count;
  bool fits = count > 0 && first >= 0;
  for (int i = 0; fits && i < count; ++i) fits = x.shape()[first + i] == normalized[i];
  if (!fits)
    fail("rms_norm: the last sizes differ; got {}, want them to be {}", x.shape(), normalized);
  if (!weight.defined()) return;
  arguments::floating("rms_norm", "weight", weight);
  if (weight.shape() != normalized)
    fail("rms_norm: the weight's shape differs; got {}, want {}", weight.shape(), normalized);
}

}  // namespace

Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& scale,
                std::optional<double> eps) {
  Tensor x = input, weight = scale;
  arguments::floating("rms_norm", "x", x);
  check_rms_norm(x, normalized_shape, weight);
  apply_policy(Op::rms_norm, {&x, &weight});
  const DType statistics = arguments::statistics_dtype(x);
  const double added = eps.value_or(statistics == DType::f64 ? 0x1p-52 : 0x1p-23);
  const int64_t columns = normalized_shape.numel();
  const Shape rows = {columns > 0 ? x.numel() / columns : 0, columns};
  const Tensor rstd = empty({rows[0]}, {statistics, x.device()});
  const Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device())
      .rms_norm(as_rows(y, rows).view(), rstd.view(), as_rows(x, rows).view(), flat(weight).view(),
                added);
  const int dims = normalized_shape.ndim();
  if (op_recorder) [[unlikely]]
    note_op("rms_norm", {x, weight}, {y}, {{"dims", dims}, {"eps", added}});
  return record(y, "rms_norm", {x, weight},
                twice([x = SavedInput(x), rstd = Saved(rstd), rows, dims, added,
                       weight = x.requires_grad() ? SavedInput(weight) : SavedInput(),
                       form = weight.defined() ? weight.shape() : Shape{},
                       dtype = weight.defined() ? weight.dtype() : DType::f32](const Tensor& g,
                                                                               Gradients& d) {
                  const Tensor values = x, factors = weight;
                  if (grad_enabled()) {
                    std::vector<int64_t> last;
                    for (int i = values.ndim() - dims; i < values.ndim(); ++i) last.push_back(i);
                    return rms_norm_gradients(g, values, factors, {form, dtype}, added, last, d);
                  }
                  const Tensor dx = empty(values.shape(), {values.dtype(), g.device()});
                  Tensor dweight;
                  if (d.wanted(1)) dweight = empty({rows[1]}, {dtype, g.device()});
                  kernels::on(g.device())
                      .rms_norm_backward(as_rows(dx, rows).view(), dweight.view(),
                                         as_rows(g, rows).view(), as_rows(values, rows).view(),
                                         rstd.get().view(), flat(factors).view());
                  d[0] = dx;
                  if (dweight.defined()) d[1] = untracked::reshape(dweight, form);
                }));
}

}  // namespace booster
