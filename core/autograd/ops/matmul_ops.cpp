// Matrix products.
#include "core/autograd/functions.h"
#include "core/autograd/gradient_keeper.h"
#include "core/autograd/layer_gradients.h"
#include "core/autograd/layer_split.h"
#include "core/autograd/linear_product.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "core/autograd/tracking.h"
#include "core/tensor/absence.h"
#include "core/tensor/spread_columns.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <string_view>

namespace booster {
namespace {

void check_operands(const char* op, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), "{}: argument is undefined", op);
  if (a.dtype() != b.dtype())
    fail("{}: dtypes differ; got {} and {}{}", op, name_of(a.dtype()), name_of(b.dtype()),
         boosted_hint(b));
  check(a.device() == b.device(), "{}: arguments are on different devices", op);
}

// Returns a b for matrices (m, k) x (k, n) or batches of them, without a tape.
Tensor product(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[a.ndim() - 1] = b.shape().back();
  if (a.ndim() == 3) shape[0] = std::max(a.shape()[0], b.shape()[0]);
  Tensor y = empty(shape, {a.dtype(), a.device()});
  kernels::on(a.device()).matmul(y.view(), a.view(), b.view(), 0);
  return y;
}

// Saves x, which only the gradient of `other` needs; saves nothing if `other` takes no gradient.
// Frozen weights thus keep no activations, and tensors that no gradient reads may change in place.
SavedInput saved_for(const Tensor& other, const Tensor& x) {
  return other.requires_grad() ? SavedInput(x) : SavedInput();
}

// Multiplies two matrices, or two batches of equal length (a broadcast one has stride 0).
Tensor batched_matmul(const Tensor& a, const Tensor& b) {
  check(a.shape().back() == b.shape()[b.ndim() - 2], "matmul: inner sizes differ; got {} and {}",
        a.shape(), b.shape());
  return record(product(a, b), "matmul", {a, b},
                twice([a = saved_for(b, a), b = saved_for(a, b)](const Tensor& g, Gradients& d) {
                  if (d.wanted(0)) d[0] = batched_matmul(g, transpose(b, -2, -1));
                  if (d.wanted(1)) d[1] = batched_matmul(transpose(a, -2, -1), g);
                }));
}

// Merges all leading dimensions, so that a kernel sees a batch of matrices.
Tensor as_batch(const Tensor& x, const Shape& batch) {
  Shape wide = batch;
  wide.push_back(x.shape()[x.ndim() - 2]);
  wide.push_back(x.shape().back());
  const Tensor expanded = expand(x, wide);
  return reshape(expanded, {batch.numel(), wide[wide.ndim() - 2], wide.back()});
}

Shape leading(const Shape& shape) {
  return Shape(shape.begin(), static_cast<size_t>(shape.ndim() - 2));
}

// Merges all dimensions but the last. A size of -1 would be ambiguous if there are no columns.
Shape as_rows(const Shape& shape) {
  return {Shape(shape.begin(), static_cast<size_t>(shape.ndim() - 1)).numel(), shape.back()};
}

Tensor matmul_matrices(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 2 && b.ndim() == 2) return batched_matmul(a, b);
  if (b.ndim() == 2) {  // one product of all rows at once
    const Tensor y = batched_matmul(reshape(a, as_rows(a.shape())), b);
    Shape shape = a.shape();
    shape[a.ndim() - 1] = b.shape().back();
    return reshape(y, shape);
  }
  const Shape batch = broadcast_shapes("matmul", leading(a.shape()), leading(b.shape()));
  const Tensor y = batched_matmul(as_batch(a, batch), as_batch(b, batch));
  Shape shape = batch;
  shape.push_back(a.shape()[a.ndim() - 2]);
  shape.push_back(b.shape().back());
  return reshape(y, shape);
}

// Return gradients of a layer's weight and bias on the tape, cast to a wider dtype.
Tensor weight_gradient(const Tensor& g_rows, const Tensor& rows, DType dtype) {
  return cast(batched_matmul(transpose(g_rows, 0, 1), rows), dtype);
}
Tensor bias_gradient(const Tensor& g_rows, DType dtype) { return cast(sum(g_rows, {0}), dtype); }

// Returns x weight^T + bias for a matrix x, off the tape.
Tensor product_now(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  const Tensor y = empty({rows.shape()[0], weight.shape()[0]}, {rows.dtype(), rows.device()});
  kernels::on(rows.device()).linear(y.view(), rows.view(), weight.view(), bias.view());
  return y;
}

enum class Computed : uint8_t { now, on_use };

// Applies a whole weight, or this rank's part.
Tensor linear_here(const Tensor& given_x, const Tensor& given_weight, const Tensor& given_bias,
                   Computed when = Computed::now) {
  Tensor x = given_x, weight = given_weight, bias = given_bias;
  if (const OpPolicy* policy = current_policy(); policy && policy->linear_method)
    if (Tensor y = policy->linear_method->linear(x, weight, bias); y.defined()) return y;
  apply_policy(Op::linear, {&x, &weight, &bias});
  check_operands("linear", x, weight);
  check(weight.ndim() == 2 && x.ndim() >= 1 && x.shape().back() == weight.shape()[1],
        "linear: sizes do not match; got input {} and weight {}, want (..., in) and (out, in)",
        x.shape(), weight.shape());
  if (bias.defined()) {
    check_operands("linear", x, bias);
    check(bias.shape() == Shape{weight.shape()[0]}, "linear: bias must be {}; got {}",
          Shape{weight.shape()[0]}, bias.shape());
  }
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.shape()[0];
  const DType dw_dtype = gradient_dtype(given_weight, weight);
  const DType db_dtype = gradient_dtype(given_bias, bias);
  const Tensor y =
      when == Computed::now
          ? product_now(untracked::reshape(x, as_rows(x.shape())), weight, bias)
          : computed_on_use(shape, {x.dtype(), x.device()},
                            std::make_shared<LinearProduct>(x, weight, bias, dw_dtype, db_dtype));
  return record(untracked::reshape(y, shape), "linear", {x, weight, bias},
                twice([x = saved_for(weight, x), weight = saved_for(x, weight), shape = x.shape(),
                       out = weight.shape()[0], dw_dtype, db_dtype](const Tensor& g, Gradients& d) {
                  const Shape each = as_rows(shape);
                  const Tensor g_rows = contiguous(reshape(g, {each[0], out}));
                  if (d.wanted(0)) d[0] = reshape(batched_matmul(g_rows, weight), shape);
                  const Tensor rows = d.wanted(1) ? reshape(x, each) : Tensor();
                  if (grad_enabled()) {
                    if (d.wanted(1)) d[1] = weight_gradient(g_rows, rows, dw_dtype);
                    if (d.wanted(2)) d[2] = bias_gradient(g_rows, db_dtype);
                    return;
                  }
                  compute_layer_gradients(d, g_rows, rows, dw_dtype, db_dtype);
                }));
}

// Applies a split layer. If parts are summands, their sum gets the bias, in the sum's dtype, which
// a policy chose.
Tensor split_linear(const LayerSplit& split, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, Computed when = Computed::now) {
  const bool late = split.result() == LayerSplit::Result::summand;
  const Tensor part = linear_here(split.to_part(x), weight, late ? Tensor() : bias, when);
  const Tensor y = split.from_part(part);
  return late && bias.defined() ? y + cast(bias, y.dtype()) : y;
}

}  // namespace

Tensor matmul(const Tensor& given_a, const Tensor& given_b) {
  Tensor a = given_a, b = given_b;
  check(a.defined() && b.defined(), "matmul: argument is undefined");
  check(a.ndim() > 0 && b.ndim() > 0,
        "matmul: too few dimensions; got {} and {}, want at least one each", a.shape(), b.shape());
  for (const Tensor& x : {a, b}) check_no_layer_split("matmul", x);
  apply_policy(Op::matmul, {&a, &b});
  check_operands("matmul", a, b);
  const bool vector_a = a.ndim() == 1, vector_b = b.ndim() == 1;
  check(a.shape().back() == b.shape()[vector_b ? 0 : b.ndim() - 2],
        "matmul: inner sizes differ; got {} and {}", a.shape(), b.shape());
  Tensor y = matmul_matrices(vector_a ? unsqueeze(a, 0) : a, vector_b ? unsqueeze(b, 1) : b);
  if (vector_b) y = squeeze(y, -1);
  if (vector_a) y = squeeze(y, vector_b ? -1 : -2);
  if (op_recorder) [[unlikely]]
    note_op("matmul", {a, b}, {y});
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x.defined() && weight.defined(), "linear: argument is undefined");
  const LayerSplit* split = layer_split(weight);
  return split ? split_linear(*split, x, weight, bias) : linear_here(x, weight, bias);
}

// Not where something watches each op or replaces products, nor where the weight comes and goes.
Tensor linear_on_use(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x.defined() && weight.defined(), "linear: argument is undefined");
  const OpPolicy* policy = current_policy();
  const LayerSplit* split = layer_split(weight);
  const bool waits = must_record({x, weight, bias}) &&
                     (!split || split->result() == LayerSplit::Result::spread) &&
                     !kept_part(weight).defined() && !(policy && policy->linear_method) &&
                     !current_observer() && !op_recorder && !results_are_marked &&
                     !kernels::is_recording();
  if (!waits) return linear(x, weight, bias);
  return split ? split_linear(*split, x, weight, bias, Computed::on_use)
               : linear_here(x, weight, bias, Computed::on_use);
}

Tensor LinearProduct::rows() const {
  const bool same = x.version() == versions_[0] && weight.version() == versions_[1] &&
                    (!bias.defined() || bias.version() == versions_[2]);
  check(same,
        "linear_on_use: its input or weight was changed before something first read the result of "
        "shape {} x {}; want the result read before optimizer.step(), or linear",
        x.numel() / x.shape().back(), weight.size(0));
  return untracked::reshape(x.detach(), as_rows(x.shape()));
}

void LinearProduct::write(const Tensor& y) const {
  const Tensor to = untracked::reshape(y, as_rows(y.shape()));
  kernels::on(x.device()).linear(to.view(), rows().view(), weight.view(), bias.view());
}

std::shared_ptr<const LinearProduct> linear_product(const Tensor& x) {
  const Tensor part = spread_columns(x).part;
  auto product =
      std::dynamic_pointer_cast<const LinearProduct>(recipe_of(part.defined() ? part : x));
  if (!product || size_of(x.dtype()) < size_of(product->dtype())) return nullptr;
  const Node* node = edge_of(x).node.get();
  while (node && !node->has_output_hooks() && !node->inputs().empty()) {
    if (std::string_view(node->name()) == "linear") return product;
    node = node->inputs()[0].node.get();
  }
  return nullptr;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), "bmm: argument is undefined");
  check(a.ndim() == 3 && b.ndim() == 3 && a.size(0) == b.size(0),
        "bmm: shapes do not match; got {} and {}, want (batch, m, k) and (batch, k, n)", a.shape(),
        b.shape());
  return matmul(a, b);
}

}  // namespace booster
