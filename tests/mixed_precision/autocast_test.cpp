// Result dtypes under the policies of fp16 and bf16, as in PyTorch 2.15.
#include "mixed_precision/ops/op_policies.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"

#include <doctest/doctest.h>

#include <functional>

using namespace booster;

namespace {
Tensor of(DType dtype, const Shape& shape = {2, 2}) { return full(shape, 0.5, {.dtype = dtype}); }
}  // namespace

TEST_CASE("a CPU region of bf16 casts what torch's lists say") {
  const OpPolicy policy = torch_autocast_policy(DeviceType::cpu, DType::bf16);
  const PolicyScope scope(&policy);
  const Tensor f32 = of(DType::f32), bf16 = of(DType::bf16);
  CHECK(matmul(f32, f32).dtype() == DType::bf16);
  CHECK(linear(f32, f32).dtype() == DType::bf16);
  CHECK(conv2d(of(DType::f32, {1, 1, 4, 4}), of(DType::f32, {1, 1, 2, 2})).dtype() == DType::bf16);
  CHECK(matmul(of(DType::f64), of(DType::f64)).dtype() == DType::f64);
  CHECK(softmax(bf16, -1).dtype() == DType::bf16);
  CHECK(exp(bf16).dtype() == DType::bf16);
  CHECK(sum(bf16).dtype() == DType::bf16);
  CHECK(layer_norm(f32, {2}).dtype() == DType::f32);
  CHECK(cat({bf16, f32}).dtype() == DType::f32);
  CHECK(cat({bf16, bf16}).dtype() == DType::bf16);
  CHECK(add(bf16, f32).dtype() == DType::f32);
  CHECK(mse_loss(bf16, bf16).dtype() == DType::f32);
  CHECK(binary_cross_entropy(bf16, bf16).dtype() == DType::f32);
  CHECK_THROWS_AS(cat({of(DType::f16), f32}), Error);
}

TEST_CASE("a CUDA region of fp16 follows the CUDA lists") {
  const OpPolicy policy = torch_autocast_policy(DeviceType::cuda, DType::f16);
  CHECK(policy[Op::exp] == OpClass::fp32);
  CHECK(policy[Op::softmax] == OpClass::fp32_result);
  CHECK(policy[Op::layer_norm] == OpClass::fp32);
  CHECK(policy[Op::binary_cross_entropy] == OpClass::banned);
  CHECK(policy[Op::cat] == OpClass::untouched);
  CHECK(policy[Op::linear] == OpClass::lower_precision);
  CHECK(policy[Op::batch_norm] == OpClass::untouched);
  // Tensors on another device are not cast.
  const PolicyScope scope(&policy);
  CHECK(matmul(of(DType::f32), of(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("an f32 weight gets an f32 gradient although all its math was 16-bit") {
  const OpPolicy policy = torch_autocast_policy(DeviceType::cpu, DType::f16);
  Tensor weight = of(DType::f32).requires_grad_();
  Tensor loss;
  {
    const PolicyScope scope(&policy);
    const Tensor y = linear(of(DType::f32), weight);
    CHECK(y.dtype() == DType::f16);
    loss = mse_loss(y, of(DType::f32));
  }
  backward(loss);
  CHECK(weight.grad().dtype() == DType::f32);
}

TEST_CASE("bf16 layers give f32 weights their sums, rounded only where a policy asks for it") {
  // A sum of 257 ones, which bf16 rounds to 256.
  struct Layer {
    const char* name;
    Shape input, weight;
    std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> call;
  };
  const Shape filter = {1, 1, 1, 1}, image = {1, 1, 1, 257};
  const Layer layers[] = {
      {"linear", {257, 1}, {1, 1}, [](auto& x, auto& w, auto& b) { return linear(x, w, b); }},
      {"conv1d", {1, 1, 257}, {1, 1, 1}, [](auto& x, auto& w, auto& b) { return conv1d(x, w, b); }},
      {"conv2d", image, filter, [](auto& x, auto& w, auto& b) { return conv2d(x, w, b); }},
      {"conv_transpose2d", image, filter,
       [](auto& x, auto& w, auto& b) { return conv_transpose2d(x, w, b); }},
  };
  for (const bool rounds : {false, true}) {
    OpPolicy policy = torch_autocast_policy(DeviceType::cpu, DType::bf16);
    policy.rounds_gradients = rounds;
    for (const Layer& layer : layers) {
      CAPTURE(layer.name);
      Tensor w = ones(layer.weight).requires_grad_(), b = zeros({1}).requires_grad_();
      Tensor y;
      {
        const PolicyScope scope(&policy);
        y = layer.call(ones(layer.input), w, b);
      }
      REQUIRE(y.dtype() == DType::bf16);
      backward(y, {.grad = ones(y.shape(), {.dtype = DType::bf16})});
      CHECK(w.grad().item() == (rounds ? 256 : 257));
      CHECK(b.grad().item() == (rounds ? 256 : 257));
    }
    // Gradients of a weight that is used twice: 256 and 1; also if an op in between has rounded.
    for (const bool by_matmul : {false, true}) {
      CAPTURE(by_matmul);
      Tensor w = ones({1, 1}).requires_grad_();
      Tensor a, b;
      {
        const PolicyScope scope(&policy);
        a = by_matmul ? matmul(w, of(DType::f32, {1, 1}) * 512.0)
                      : linear(of(DType::f32, {1, 1}) * 512.0, w);
        b = linear(of(DType::f32, {1, 1}) * 2.0, w);
      }
      backward(sum(cast(a, DType::f32) + cast(b, DType::f32)));
      CHECK(w.grad().item() == (rounds ? 256 : 257));
    }
  }
}

TEST_CASE("Paddle's O1 gives a convolution with an f32 bias back in f32, without one in 16 bits") {
  const OpPolicy policy = paddle_policy(PaddleLevel::O1, DType::f16);
  const PolicyScope scope(&policy);
  const Tensor x = of(DType::f32, {1, 1, 4, 4}), weight = of(DType::f32, {2, 1, 2, 2});
  CHECK(conv2d(x, weight).dtype() == DType::f16);
  const Tensor y = conv2d(x, weight, of(DType::f32, {2}));
  CHECK(y.dtype() == DType::f32);
  CHECK(y.shape() == Shape{1, 2, 3, 3});
  CHECK(linear(of(DType::f32), of(DType::f32), of(DType::f32, {2})).dtype() == DType::f16);
  CHECK(softmax(of(DType::f16), -1).dtype() == DType::f32);
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK(embedding(zeros({2}, {.dtype = DType::i64}), of(DType::f16)).dtype() == DType::f32);
}

TEST_CASE("Apex's O1 runs listed functions in f16 and f32 and the rest as they come") {
  const OpPolicy policy = apex_o1_policy(DeviceType::cpu);
  const PolicyScope scope(&policy);
  CHECK(matmul(of(DType::f32), of(DType::f32)).dtype() == DType::f16);
  CHECK(gelu(of(DType::f16)).dtype() == DType::f32);
  CHECK(relu(of(DType::f16)).dtype() == DType::f16);
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(of(DType::f16), of(DType::f16)),
                       doctest::Contains("binary_cross_entropy_with_logits"), Error);
  CHECK(binary_cross_entropy(of(DType::f32), of(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("the lower dtype must have 16 bits") {
  CHECK_THROWS_AS(torch_autocast_policy(DeviceType::cpu, DType::f32), Error);
}
