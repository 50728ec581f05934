#include "core/autograd/op_policy.h"
#include "core/autograd/policy_dtypes.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"

#include <doctest/doctest.h>

#include <thread>

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

TEST_CASE("a 16-bit dtype of another kind is refused in a promoting op until f32 has come") {
  const OpPolicy policy = policy_of(DType::bf16);
  const PolicyScope scope(&policy);
  CHECK(cat({of(DType::f32), of(DType::f16)}).dtype() == DType::f32);
  CHECK(cat({of(DType::f64), of(DType::f64)}).dtype() == DType::f64);
  CHECK_THROWS_WITH_AS(cat({of(DType::f16), of(DType::f32)}),
                       doctest::Contains("cat: cannot be widened under policy test; got f16, f32"),
                       Error);
  CHECK_THROWS_AS(cat({of(DType::bf16), of(DType::f16), of(DType::f32)}), Error);
}

TEST_CASE("doubles, integers and tensors of another device pass untouched") {
  OpPolicy policy = policy_of(DType::bf16);
  {
    const PolicyScope scope(&policy);
    CHECK(exp(of(DType::f64)).dtype() == DType::f64);
    CHECK(sum(of(DType::f64)).dtype() == DType::f64);
    CHECK(sum(of(DType::i64)).dtype() == DType::i64);
  }
  policy.casts_doubles = true;
  {
    const PolicyScope scope(&policy);
    CHECK(exp(of(DType::f64)).dtype() == DType::f32);
    CHECK(matmul(of(DType::f64), of(DType::f32)).dtype() == DType::bf16);
  }
  policy.device = DeviceType::cuda;
  const PolicyScope scope(&policy);
  CHECK(matmul(of(DType::f32), of(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("Apex's promotion widens a pair and refuses other mixes but in lists") {
  OpPolicy policy{.lower = DType::f16, .casts_doubles = true, .name = "test"};
  policy.set(Op::add, OpClass::widen_pair);
  policy.set(Op::cat, OpClass::widen_list);
  policy.set(Op::log, OpClass::banned_lower);
  const PolicyScope scope(&policy);
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK(add(of(DType::f16), of(DType::f16)).dtype() == DType::f16);
  CHECK(add(of(DType::bf16), of(DType::bf16)).dtype() == DType::bf16);
  CHECK_THROWS_AS(add(of(DType::bf16), of(DType::f32)), Error);
  CHECK_THROWS_AS(add(of(DType::f64), of(DType::f32)), Error);
  CHECK(cat({of(DType::f16), of(DType::f32)}).dtype() == DType::f32);
  CHECK_THROWS_AS(log(of(DType::f16)), Error);
  CHECK(log(of(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("Paddle's promotion lowers unless an argument is f32") {
  OpPolicy policy{.lower = DType::f16, .cache_casts = false, .name = "test"};
  policy.set(Op::add, OpClass::lower_unless_fp32);
  policy.set(Op::maximum, OpClass::lower_unless_first_fp32);
  policy.set(Op::minimum, OpClass::lower_first);
  const PolicyScope scope(&policy);
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK(add(of(DType::bf16), of(DType::f16)).dtype() == DType::f16);
  CHECK(maximum(of(DType::f32), of(DType::f16)).dtype() == DType::f32);
  CHECK(maximum(of(DType::bf16), of(DType::f16)).dtype() == DType::f16);
  CHECK(minimum(of(DType::f32), of(DType::f16)).dtype() == DType::f16);
  CHECK(minimum(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("regions of two 16-bit dtypes, one inside the other, each cast a weight for themselves") {
  const OpPolicy bf16 = policy_of(DType::bf16), f16 = policy_of(DType::f16);
  const Tensor w = of(DType::f32).requires_grad_();
  const PolicyScope outer(&bf16);
  CHECK(matmul(w, of(DType::f32)).dtype() == DType::bf16);
  {
    const PolicyScope inner(&f16);
    CHECK(matmul(w, of(DType::f32)).dtype() == DType::f16);
  }
  CHECK(matmul(w, of(DType::f32)).dtype() == DType::bf16);
}

TEST_CASE("a weight changed inside a region is cast anew there") {
  const OpPolicy policy = policy_of(DType::bf16);
  Tensor w = of(DType::f32).requires_grad_();
  const PolicyScope scope(&policy);
  CHECK(matmul(w, of(DType::f32)).item() == 1);
  {
    const NoGradGuard no_grad;
    w.fill_(2);
  }
  const Tensor y = matmul(w, of(DType::f32));
  CHECK(y.item() == 2);
  backward(sum(y));
  CHECK(w.grad().item() == 1);
}

TEST_CASE("a policy is the thread's own, and an error leaves what was in force before") {
  const OpPolicy policy = policy_of(DType::bf16);
  const PolicyScope scope(&policy);
  const OpPolicy* elsewhere = &policy;
  std::thread([&] { elsewhere = current_policy(); }).join();
  CHECK(elsewhere == nullptr);
  try {
    const PolicyScope inner(nullptr);
    fail("test: an error");
  } catch (const Error&) {
  }
  CHECK(current_policy() == &policy);
}

namespace {

// x * x as a custom function that records the dtypes of its forward and backward.
struct CustomSquare {
  std::optional<DType> cast_inputs;
  DType forward = DType::f64, backward = DType::f64, inside = DType::f64;

  Tensor operator()(Tensor x) {
    const CustomForward scope({&x}, cast_inputs);
    forward = x.dtype();
    const NoGradGuard no_grad;
    const Tensor y = matmul(x, x);
    inside = y.dtype();
    const GradMode grad(true);
    return record(y, "custom", {x}, [this, x = Saved(x), memory = scope.memory()](const Tensor& g,
                                                                               Gradients& d) {
      const PolicyScope policy = memory.scope();
      const NoGradGuard none;
      const Tensor product = matmul(x.get(), of(DType::f32));
      backward = product.dtype();
      d[0] = cast(mul(cast(g, DType::f32), cast(product, DType::f32)), x.get().dtype());
    });
  }
};

}  // namespace

TEST_CASE("a custom function's backward runs under what its forward ran under") {
  const OpPolicy policy = policy_of(DType::bf16);
  const Tensor x = of(DType::f32).requires_grad_();
  CustomSquare plain;
  Tensor y;
  {
    const PolicyScope scope(&policy);
    y = plain(x);
  }
  CHECK(plain.forward == DType::f32);
  CHECK(plain.inside == DType::bf16);
  backward(sum(y));
  CHECK(plain.backward == DType::bf16);
  CHECK(x.grad().dtype() == DType::f32);

  CustomSquare outside;
  const Tensor z = sum(outside(x));
  const PolicyScope scope(&policy);
  backward(z);
  CHECK(outside.backward == DType::f32);
}

TEST_CASE("a custom function that asks for a dtype runs without casts, backward too") {
  const OpPolicy policy = policy_of(DType::bf16);
  const Tensor x = of(DType::f16).requires_grad_();
  CustomSquare wide{.cast_inputs = DType::f32};
  {
    const PolicyScope scope(&policy);
    backward(sum(wide(x)));
    CHECK(current_policy() == &policy);
  }
  CHECK(wide.forward == DType::f32);
  CHECK(wide.inside == DType::f32);
  CHECK(wide.backward == DType::f32);
  CHECK(x.grad().dtype() == DType::f16);
  // Without a policy nothing is cast; doubles are never cast.
  CustomSquare off{.cast_inputs = DType::f32};
  off(of(DType::f64));
  CHECK(off.forward == DType::f64);
}

TEST_CASE("an unknown op name is an error with the nearest one") {
  CHECK(op_named("softmax") == Op::softmax);
  CHECK_THROWS_WITH_AS(op_named("softmx"), doctest::Contains("did you mean softmax?"), Error);
}

TEST_CASE("a weight is ready when its checkpoint has gone back, also where its cast is kept") {
  const OpPolicy policy = policy_of(DType::bf16);
  const Tensor first = of(DType::f32).requires_grad_(), second = of(DType::f32).requires_grad_();
  const auto times = [](const Tensor& weight) {
    return [weight](const std::vector<Tensor>& in) { return matmul(in[0], weight); };
  };
  std::string order;
  Tensor y;
  {
    const PolicyScope scope(&policy);
    const Tensor x = checkpoint(times(first), {of(DType::f32)}) * 1;
    register_grad_hook(x, [&](const Tensor& g) {
      order += " between";
      return g;
    });
    y = checkpoint(times(second), {x});
  }
  on_grad_ready(first, [&](const Tensor&) { order += " first"; });
  on_grad_ready(second, [&](const Tensor&) { order += " second"; });
  backward(y, {.grad = of(DType::bf16)});
  CHECK(order == " second between first");
}
