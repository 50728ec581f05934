// Functions of 16-bit tensors compute in f32 and round once, forward and backward.
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

struct RoundedFunction {
  const char* name;
  Tensor (*call)(const Tensor&);
  bool from_result = false;  // the gradient reads the rounded result
};

const RoundedFunction rounded_functions[] = {
    {"elu", [](const Tensor& x) { return elu(x, 1.5); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.3); }},
    {"silu", [](const Tensor& x) { return silu(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, true},
    {"tanh", [](const Tensor& x) { return tanh(x); }, true},
    {"expm1", [](const Tensor& x) { return expm1(x); }, true},
    {"softmax", [](const Tensor& x) { return softmax(x, -1); }, true},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }, true},
    {"logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }},
    {"var", [](const Tensor& x) { return var(x, {1}); }},
    {"var of all", [](const Tensor& x) { return var(x, {}, false, true); }},
    {"stddev", [](const Tensor& x) { return stddev(x, {0}); }},
    {"norm", [](const Tensor& x) { return norm(x, {1}); }},
    {"rms_norm", [](const Tensor& x) { return rms_norm(x, {129}, {}, 1e-5); }},
};

// Returns values with a mean far from 0, so that a rounded deviation is visible.
Tensor numbers(DType dtype) { return untracked::cast(hashed({5, 129}, 1, -3, 5), dtype); }

}  // namespace

TEST_CASE("functions of 16-bit numbers are those of f32, rounded once") {
  for (const RoundedFunction& one : rounded_functions)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(std::string(one.name));
      CAPTURE(std::string(name_of(dtype)));
      const Tensor narrow = numbers(dtype).requires_grad_();
      const Tensor wide = untracked::cast(narrow.detach(), DType::f32).requires_grad_();
      const Tensor y = one.call(narrow), z = one.call(wide);
      CHECK(y.dtype() == dtype);
      CHECK(y.to_vector<float>() == untracked::cast(z.detach(), dtype).to_vector<float>());
      if (one.from_result) continue;
      const Tensor g = untracked::cast(hashed(y.shape(), 2), dtype);
      backward(y, {.grad = g});
      backward(z, {.grad = untracked::cast(g, DType::f32)});
      CHECK(narrow.grad().dtype() == dtype);
      CHECK(narrow.grad().to_vector<float>() ==
            untracked::cast(wide.grad(), dtype).to_vector<float>());
    }
}

TEST_CASE("elu and its derivatives keep their digits near 0 and far below") {
  const std::vector<double> at = {-80, -20, -1, -1e-3, -1e-6, -1e-12, 0, 1e-12, 2, 100};
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(std::string(name_of(dtype)));
    const Tensor x =
        untracked::cast(from_vector(at, {static_cast<int64_t>(at.size())}), dtype).requires_grad_();
    const Tensor y = elu(x, 0.7);
    const auto first = gradients(sum(y), {x}, {.create_graph = true});
    const auto second = gradients(sum(first[0]), {x});
    const double epsilon = dtype == DType::f32 ? 1e-6 : 1e-14;
    const auto close = [&](const Tensor& got, size_t i, double want) {
      INFO("at " << at[i] << ": got " << got.to_vector<double>()[i] << ", want " << want);
      CHECK(std::abs(got.to_vector<double>()[i] - want) <= epsilon * std::abs(want));
    };
    const auto held = x.to_vector<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      const bool linear = held[i] > 0;
      close(y, i, linear ? held[i] : 0.7 * std::expm1(held[i]));
      close(first[0], i, linear ? 1 : 0.7 * std::exp(held[i]));
      close(second[0], i, linear ? 0 : 0.7 * std::exp(held[i]));
    }
  }
}

TEST_CASE("huber_loss answers by its own name, in errors and to policies") {
  CHECK_THROWS_WITH_AS(huber_loss(zeros({2}), zeros({3})), doctest::Contains("huber_loss: shapes"),
                       Error);
  OpPolicy policy{.lower = DType::bf16};
  policy.set(Op::huber_loss, OpClass::banned);
  const PolicyScope scope(&policy);
  CHECK_THROWS_WITH_AS(huber_loss(zeros({2}), zeros({2})), doctest::Contains("huber_loss"), Error);
  CHECK_NOTHROW(smooth_l1_loss(zeros({2}), zeros({2})));
}
