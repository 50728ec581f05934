// softmax, log_softmax, gelu, and linear followed by gelu.
#include "core/autograd/layer_gradients.h"
#include "core/autograd/layer_split.h"
#include "core/autograd/memory_order.h"
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

// The gradients on the tape. softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g)
Tensor softmax_gradient(const Tensor& given, const Tensor& y, int d, DType dtype, bool logarithm) {
  const PolicyScope inside(nullptr);
  const Tensor g = cast(given, y.dtype());
  const Tensor dx = logarithm ? g - exp(y) * sum(g, {d}, true) : y * (g - sum(g * y, {d}, true));
  return cast(dx, dtype);
}

Tensor softmax_of_rows(const Tensor& x, Op op, DType result) {
  const bool logarithm = op == Op::log_softmax;
  Tensor y = empty(x.shape(), {result, x.device()});
  kernels::on(x.device()).softmax(y.view(), untracked::contiguous(x).view(), logarithm);
  return record(
      y, name_of(op), {x},
      twice([y = SavedResult(y), dtype = x.dtype(), logarithm](const Tensor& g, Gradients& d) {
        const Tensor saved = y.get(d);
        if (grad_enabled() && g.ndim() > 0) {
          d[0] = softmax_gradient(g, saved, -1, dtype, logarithm);
          return;
        }
        d[0] = empty(g.shape(), {dtype, g.device()});
        kernels::on(g.device())
            .softmax_backward(d[0].view(), untracked::contiguous(g).view(), saved.view(),
                              logarithm);
      }));
}

// Returns a contiguous tensor (outer, n, inner) as (outer, inner, n), for the CPU's kernel.
kernels::View columns_of(const Tensor& x, int d) {
  kernels::View view = x.view();
  const int64_t n = x.size(d), inner = x.view().strides[d];
  view.ndim = 3;
  const int64_t shape[] = {x.numel() / (n * inner), inner, n}, strides[] = {n * inner, 1, inner};
  for (int i = 0; i < 3; ++i) {
    view.shape[i] = shape[i];
    view.strides[i] = strides[i];
  }
  return view;
}

// Returns true if the CPU's kernel takes x as columns. Otherwise x's rows need no copy, or few long
// columns are faster as rows.
bool runs_on_columns(const Tensor& x, int d) {
  if (x.device().type != DeviceType::cpu || x.numel() == 0 || x.size(d) == 1) return false;
  int64_t inner = 1;
  for (int i = d + 1; i < x.ndim(); ++i) inner *= x.size(i);
  if (inner < 16 && x.size(d) >= 256) return false;
  return !untracked::transpose(x, d, -1).is_contiguous();
}

Tensor softmax_of_columns(const Tensor& x, int d, Op op, DType result) {
  const bool logarithm = op == Op::log_softmax;
  const Tensor from = untracked::contiguous(x), y = empty(x.shape(), {result, x.device()});
  kernels::on(x.device()).softmax(columns_of(y, d), columns_of(from, d), logarithm);
  return record(
      y, name_of(op), {x},
      twice([y = SavedResult(y), dtype = x.dtype(), d, logarithm](const Tensor& g, Gradients& to) {
        const Tensor saved = y.get(to), upper = untracked::contiguous(g);
        if (grad_enabled()) {
          to[0] = softmax_gradient(g, saved, d, dtype, logarithm);
          return;
        }
        to[0] = empty(g.shape(), {dtype, g.device()});
        kernels::on(g.device())
            .softmax_backward(columns_of(to[0], d), columns_of(upper, d), columns_of(saved, d),
                              logarithm);
      }));
}

Tensor softmax_of(const Tensor& x, int d, Op op, DType result) {
  if (x.ndim() == 0 || d == x.ndim() - 1) return softmax_of_rows(x, op, result);
  if (runs_on_columns(x, d)) return softmax_of_columns(x, d, op, result);
  return transpose(softmax_of_rows(transpose(x, d, -1), op, result), d, -1);
}

// Reports to the thread's recorder, if there is one; returns y.
Tensor noted(Op op, const Tensor& x, int d, const Tensor& y) {
  if (op_recorder) [[unlikely]]
    note_op(name_of(op), {x}, {y}, {{"dim", d}});
  return y;
}

Tensor softmax_along(Tensor x, int64_t dim, Op op) {
  arguments::floating(name_of(op), "x", x);
  const int d = normal_dim_or_only(name_of(op), dim, x.ndim());
  apply_policy(op, {&x});
  const DType result = wants_f32_result(op, x) ? DType::f32 : x.dtype();
  if (x.device().type == DeviceType::cpu && !x.is_contiguous()) {
    const MemoryOrder ordered(x);
    return noted(op, x, d, ordered.restored(softmax_of(ordered.x(), ordered.place(d), op, result)));
  }
  return noted(op, x, d, softmax_of(x, d, op, result));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) { return softmax_along(x, dim, Op::softmax); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return softmax_along(x, dim, Op::log_softmax); }

Tensor gelu(const Tensor& x, GeluForm form) {
  return form == GeluForm::erf ? gelu(x) : gelu_tanh(x);
}

namespace {

// Returns a b, off the tape.
Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor y = empty({a.size(0), b.size(1)}, {a.dtype(), a.device()});
  kernels::on(a.device()).matmul(y.view(), a.view(), b.view(), 0);
  return y;
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  arguments::floating("linear_gelu", "weight", weight);
  if (x.ndim() < 1 || weight.ndim() != 2 || x.shape().back() != weight.size(1))
    fail("linear_gelu: sizes do not match; got x {} and weight {}, want (..., in) and (out, in)",
         x.shape(), weight.shape());
  arguments::same_dtype("linear_gelu", "weight", weight, x);
  arguments::same_dtype("linear_gelu", "bias", bias, x);
  arguments::optional_shape("linear_gelu", "bias", bias, {weight.size(0)});
}

}  // namespace

Tensor linear_gelu(const Tensor& input, const Tensor& matrix, const Tensor& offset, GeluForm form) {
  // gelu must be a separate step in two cases: a policy may run it in another dtype than the
  // product, and a LinearMethod replaces the product.
  const OpPolicy* policy = current_policy();
  const Op activation = form == GeluForm::erf ? Op::gelu : Op::gelu_tanh;
  if (policy && ((*policy)[activation] != OpClass::untouched || policy->linear_method))
    return gelu(linear(input, matrix, offset), form);
  check(input.defined() && matrix.defined(), "linear_gelu: argument is undefined");
  const LayerSplit* split = layer_split(matrix);
  if (split && split->result() != LayerSplit::Result::part)  // ranks exchange before the gelu
    return gelu(linear(input, matrix, offset), form);
  Tensor x = split ? split->to_part(input) : input, weight = matrix, bias = offset;
  arguments::floating("linear_gelu", "x", x);
  apply_policy(Op::linear, {&x, &weight, &bias});
  check_linear(x, weight, bias);
  const auto& table = kernels::on(x.device());
  const TensorOptions options{x.dtype(), x.device()};
  const bool tanh_form = form == GeluForm::tanh;
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.size(0);
  int64_t count = 1;
  for (int i = 0; i < x.ndim() - 1; ++i) count *= shape[i];
  const Tensor rows = untracked::contiguous(untracked::reshape(x, {count, weight.size(1)}));
  const Tensor z = empty({count, weight.size(0)}, options), y = empty_like(z);
  table.linear(z.view(), rows.view(), weight.view(), bias.view());
  table.bias_gelu(y.view(), z.view(), {}, tanh_form);
  // dz = g gelu'(z); dx = dz W, dW = dz^T x, dbias = column sums of dz (in the pass that writes dz)
  const Tensor activated = untracked::reshape(y, shape);
  if (op_recorder) [[unlikely]]
    note_op("linear_gelu", {x, weight, bias}, {activated}, {{"tanh", tanh_form}});
  const Tensor result =
      record(activated, "linear_gelu", {x, weight, bias},
             [rows = weight.requires_grad() ? Saved(rows) : Saved(), z = Saved(z),
              weight = x.requires_grad() ? Saved(weight) : Saved(), tanh_form, shape = x.shape(),
              dw_dtype = gradient_dtype(matrix, weight),
              db_dtype = gradient_dtype(offset, bias)](const Tensor& g, Gradients& d) {
               const Tensor preactivation = z;
               const Tensor dz = room_in_place_of(g, preactivation);
               Tensor dbias;
               if (d.wanted(2)) dbias = empty({dz.size(1)}, {db_dtype, dz.device()});
               const Tensor upper = untracked::contiguous(untracked::reshape(g, dz.shape()));
               kernels::on(g.device())
                   .bias_gelu_backward(dz.view(), dbias.view(), upper.view(), preactivation.view(),
                                       {}, tanh_form);
               if (d.wanted(0)) d[0] = untracked::reshape(product(dz, weight), shape);
               if (d.wanted(1)) compute_weight_gradient(d, dz, rows, dw_dtype);
               if (dbias.defined()) d[2] = dbias;
             });
  return split ? split->from_part(result) : result;
}

}  // namespace booster
