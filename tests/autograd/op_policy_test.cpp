#include "core/autograd/op_policy.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

OpPolicy policy_of(DType lower) {
  OpPolicy policy{.lower = lower, .name = "test"};
  policy.set(Op::matmul, OpClass::lower_precision);
  policy.set(Op::exp, OpClass::fp32);
  policy.set(Op::sum, OpClass::fp32_result);
  policy.set(Op::cat, OpClass::widest);
  policy.set(Op::where, OpClass::widest);
  policy.set(Op::log, OpClass::banned);
  return policy;
}

Tensor of(DType dtype, const Shape& shape = {1, 1}) { return ones(shape, {.dtype = dtype}); }

}  // namespace

TEST_CASE("each class casts as torch's policies do") {
  const OpPolicy policy = policy_of(DType::f16);
  const PolicyScope scope(&policy);
  CHECK(matmul(of(DType::f32), of(DType::f16)).dtype() == DType::f16);
  CHECK(matmul(of(DType::f64), of(DType::f64)).dtype() == DType::f64);
  CHECK_THROWS_AS(matmul(of(DType::f64), of(DType::f32)), Error);
  CHECK(exp(of(DType::f16)).dtype() == DType::f32);
  CHECK(sum(of(DType::f16)).dtype() == DType::f32);
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK(cat({of(DType::f16), of(DType::f32)}).dtype() == DType::f32);
  CHECK(cat({of(DType::f16), of(DType::f16)}).dtype() == DType::f16);
  CHECK_THROWS_WITH_AS(log(of(DType::f16)), doctest::Contains("not safe"), Error);
  const Tensor truth = ones({1, 1}, {.dtype = DType::boolean});
  CHECK_THROWS_AS(where(truth, of(DType::f16), of(DType::bf16)), Error);
  CHECK(where(truth, of(DType::f32), of(DType::bf16)).dtype() == DType::f32);
}

TEST_CASE("a scope without a policy turns casts off inside another") {
  const OpPolicy policy = policy_of(DType::bf16);
  const PolicyScope outer(&policy);
  {
    const PolicyScope inner(nullptr);
    CHECK(matmul(of(DType::f32), of(DType::f32)).dtype() == DType::f32);
    CHECK_THROWS_AS(matmul(of(DType::f32), of(DType::bf16)), Error);
  }
  CHECK(matmul(of(DType::f32), of(DType::f32)).dtype() == DType::bf16);
}

TEST_CASE("a weight's casts share one node in a region: its gradients add up in 16 bits") {
  auto gradient = [](bool cache) {
    OpPolicy policy = policy_of(DType::f16);
    policy.cache_casts = cache;
    Tensor w = of(DType::f32).requires_grad_();
    const PolicyScope scope(&policy);
    const Tensor a = matmul(w, full({1, 1}, 2048)), b = matmul(w, of(DType::f32));
    const PolicyScope off(nullptr);
    backward(sum(cast(a, DType::f32) + cast(b, DType::f32)));
    CHECK(w.grad().dtype() == DType::f32);
    return w.grad().item();
  };
  CHECK(gradient(true) == 2048);
  CHECK(gradient(false) == 2049);
}

TEST_CASE("a cast made first under no_grad still carries the gradient later") {
  const OpPolicy policy = policy_of(DType::bf16);
  Tensor w = of(DType::f32).requires_grad_();
  const PolicyScope scope(&policy);
  {
    const NoGradGuard no_grad;
    matmul(w, of(DType::f32));
  }
  const Tensor y = matmul(w, of(DType::f32));
  backward(sum(y));
  CHECK(w.grad().item() == 1);
}

TEST_CASE("a weight changed in place is cast anew, an unchanged one is not converted again") {
  const OpPolicy policy = policy_of(DType::bf16);
  Tensor w = of(DType::f32).requires_grad_();
  auto value = [&] {
    const PolicyScope scope(&policy);
    return matmul(w, of(DType::f32)).item();
  };
  CHECK(value() == 1);
  const Tensor kept = cast_copy(w, DType::bf16);
  CHECK(kept.defined());
  CHECK(value() == 1);
  CHECK(cast_copy(w, DType::bf16).shares_storage(kept));
  const NoGradGuard no_grad;
  w.fill_(3);
  CHECK(value() == 3);
}

TEST_CASE("an optimizer may rewrite the kept copy and say so") {
  const OpPolicy policy = policy_of(DType::bf16);
  Tensor w = of(DType::f32).requires_grad_();
  auto value = [&] {
    const PolicyScope scope(&policy);
    return matmul(w, of(DType::f32)).item();
  };
  value();
  const NoGradGuard no_grad;
  w.fill_(4);
  Tensor copy = cast_copy(w, DType::bf16);
  copy.fill_(4);
  mark_cast_copy_current(w, DType::bf16);
  CHECK(value() == 4);
  CHECK(cast_copy(w, DType::bf16).shares_storage(copy));
}

TEST_CASE("an unknown op name is an error with the nearest one") {
  CHECK(op_named("softmax") == Op::softmax);
  CHECK_THROWS_WITH_AS(op_named("softmx"), doctest::Contains("did you mean softmax?"), Error);
}
