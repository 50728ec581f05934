// The dtype in which each function runs under a policy; fused forms equal the separate ones.
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

OpPolicy autocast_like(DType lower) {
  OpPolicy policy{.lower = lower, .name = "test"};
  for (Op op : {Op::linear, Op::conv2d, Op::attention, Op::matmul})
    policy.set(op, OpClass::lower_precision);
  for (Op op : {Op::cross_entropy, Op::mse_loss, Op::group_norm}) policy.set(op, OpClass::fp32);
  for (Op op : {Op::softmax, Op::log_softmax}) policy.set(op, OpClass::fp32_result);
  policy.set(Op::binary_cross_entropy, OpClass::banned);
  return policy;
}

Tensor bf16(const Tensor& x) { return untracked::cast(x, DType::bf16); }

}  // namespace

TEST_CASE("functions ask the policy for their dtype") {
  const OpPolicy policy = autocast_like(DType::bf16);
  const PolicyScope scope(&policy);
  const Tensor x = hashed({2, 4}, 1), image = hashed({1, 2, 4, 4}, 2);
  const Tensor low = bf16(x);
  CHECK(linear_gelu(x, hashed({3, 4}, 3)).dtype() == DType::bf16);
  CHECK(conv2d(image, hashed({3, 2, 2, 2}, 4), hashed({3}, 5)).dtype() == DType::bf16);
  CHECK(attention_packed(hashed({1, 2, 3, 1, 4}, 6)).dtype() == DType::bf16);
  CHECK(softmax(low, 1).dtype() == DType::f32);
  CHECK(log_softmax(low, 0).dtype() == DType::f32);
  CHECK(layer_norm(low, {4}).dtype() == DType::bf16);
  CHECK(layer_norm(x, {4}).dtype() == DType::f32);
  CHECK(group_norm(low, 2).dtype() == DType::f32);
  CHECK(batch_norm(low, zeros({4}), ones({4})).dtype() == DType::bf16);
  CHECK(dropout(low, 0.5).dtype() == DType::bf16);
  CHECK(max_pool2d(bf16(image), 2).dtype() == DType::bf16);
  CHECK(cross_entropy(low, zeros({2}, {.dtype = DType::i64})).dtype() == DType::f32);
  CHECK(mse_loss(low, low).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(low, low), doctest::Contains("with_logits"), Error);
}

TEST_CASE("a list that names gelu is heard by the fused form too") {
  OpPolicy policy = autocast_like(DType::bf16);
  policy.set(Op::gelu, OpClass::fp32);
  const PolicyScope scope(&policy);
  const Tensor x = hashed({2, 4}, 1), weight = hashed({3, 4}, 3);
  CHECK(linear_gelu(x, weight).dtype() == DType::f32);
  CHECK(linear_gelu(x, weight, {}, GeluForm::tanh).dtype() == DType::bf16);
}

TEST_CASE("a layer norm written in 16 bits equals one that is cast, forward and backward") {
  const Tensor g = bf16(hashed({3, 8}, 4));
  const auto run = [&](bool at_once) {
    const Tensor x = hashed({3, 8}, 1).requires_grad_(), weight = hashed({8}, 2).requires_grad_();
    const Tensor y = at_once ? layer_norm(x, {8}, weight, {}, 1e-6, DType::bf16)
                             : cast(layer_norm(x, {8}, weight, {}, 1e-6), DType::bf16);
    backward(y, {.grad = g});
    return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(),
                       weight.grad().to_vector<float>()};
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a residual layer norm equals addition and layer norm, also where they cannot be fused") {
  const auto run = [](bool fused, DType x_dtype, DType branch_dtype, const OpPolicy* policy) {
    const PolicyScope scope(policy);
    const Tensor x = untracked::cast(hashed({2, 3, 8}, 1), x_dtype).requires_grad_();
    const Tensor branch = untracked::cast(hashed({2, 3, 8}, 2), branch_dtype).requires_grad_();
    const Tensor weight = hashed({8}, 3, 0.5, 1.5).requires_grad_();
    const Tensor bias = hashed({8}, 4).requires_grad_();
    ResidualNorm y;
    if (fused) {
      y = residual_layer_norm(x, branch, {8}, weight, bias, 1e-6);
    } else {
      y.sum = x + branch;
      y.normalized = layer_norm(y.sum, {8}, weight, bias, 1e-6);
    }
    sum(square(cast(y.sum, DType::f32)) + cast(y.normalized, DType::f32) * 3.0).backward();
    CHECK(x.grad().dtype() == x_dtype);
    CHECK(branch.grad().dtype() == branch_dtype);
    std::vector<double> all;
    for (const Tensor& t :
         {y.sum, y.normalized, x.grad(), branch.grad(), weight.grad(), bias.grad()})
      for (double value : t.to_vector<double>()) all.push_back(value);
    return all;
  };
  OpPolicy lowers_add = autocast_like(DType::bf16);
  lowers_add.set(Op::add, OpClass::lower_precision);
  const OpPolicy plain = autocast_like(DType::bf16);
  for (const OpPolicy* policy : std::vector<const OpPolicy*>{nullptr, &plain, &lowers_add})
    for (DType x : {DType::f32, DType::bf16})
      for (DType branch : {DType::f32, DType::bf16}) {
        CAPTURE(name_of(x));
        CAPTURE(name_of(branch));
        const double tolerance = x == DType::f32 && policy != &lowers_add ? 1e-6 : 0.02;
        CHECK(largest_error(run(true, x, branch, policy), run(false, x, branch, policy)) <
              tolerance);
      }
}

TEST_CASE("either result of a residual layer norm may go unused") {
  for (int used : {0, 1}) {
    const Tensor x = hashed({2, 4}, 1).requires_grad_(),
                 branch = hashed({2, 4}, 2).requires_grad_();
    const Tensor weight = ones({4}).requires_grad_();
    const ResidualNorm y = residual_layer_norm(x, branch, {4}, weight);
    sum(square(used == 0 ? y.sum : y.normalized) * hashed({2, 4}, 3)).backward();
    CHECK(x.grad().to_vector<float>() == branch.grad().to_vector<float>());
    CHECK(weight.grad().defined() == (used == 1));
  }
}

TEST_CASE("dtype_for_linear is the dtype of a linear layer's input") {
  const Tensor x = hashed({2, 4}, 1);
  CHECK(dtype_for_linear(x) == DType::f32);
  CHECK(dtype_for_linear(untracked::cast(x, DType::f16)) == DType::f16);
  const OpPolicy policy = autocast_like(DType::bf16);
  const PolicyScope scope(&policy);
  CHECK(dtype_for_linear(x) == DType::bf16);
  CHECK(dtype_for_linear(untracked::cast(x, DType::f64)) == DType::f64);
}
