// Every function against PyTorch, against finite differences, and in every dtype.
#include "core/nn/functional.h"
#include "tests/autograd/gradient_check.h"
#include "tests/draws.h"
#include "tests/nn/function_cases.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

struct Outcome {
  std::vector<double> y;
  std::vector<std::vector<double>> grads;
  Tensor result;
};

// Returns the result, and gradients of sum(result * weights) with the weights of make_nn.py.
Outcome run(const FunctionCase& one, std::vector<Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (one.wants_gradient(i)) inputs[i].requires_grad_();
  Outcome outcome;
  outcome.result = one.function(inputs);
  outcome.y = outcome.result.to_vector<double>();
  const Tensor& y = outcome.result;
  const Tensor g = y.ndim() ? hashed(y.shape(), 99) : ones({});
  backward(y, {.grad = untracked::cast(g, y.dtype()).to(y.device())});
  for (const Tensor& x : inputs)
    outcome.grads.push_back(x.grad().defined() ? x.grad().to_vector<double>()
                                               : std::vector<double>());
  return outcome;
}

// Returns the inputs in double after rounding to a narrow dtype.
std::vector<Tensor> rounded(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> wide;
  for (const Tensor& x : inputs)
    wide.push_back(is_floating(x.dtype()) ? untracked::cast(x, DType::f64) : x);
  return wide;
}

// Returns the arguments as leaves on a device.
std::vector<Tensor> on_device(const std::vector<Tensor>& inputs, Device device) {
  std::vector<Tensor> there;
  for (const Tensor& x : inputs) there.push_back(x.to(device));
  return there;
}

void check_golden_numbers(Device device) {
  for (const FunctionCase& one : function_cases()) {
    for (DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(one.name);
      CAPTURE(std::string(name_of(dtype)));
      const double tolerance = dtype == DType::f32 ? 3e-6 : 2e-7;  // golden values have 9 digits
      const Outcome outcome = run(one, on_device(one.inputs(dtype), device));
      CHECK(outcome.result.dtype() == dtype);
      CHECK(outcome.result.shape() == shape_of(one.golden["shape"]));
      CHECK(largest_error(outcome.y, one.golden["y"]) < tolerance);
      for (size_t i = 0; i < outcome.grads.size(); ++i) {
        CAPTURE(i);
        if (one.wants_gradient(i))
          CHECK(largest_error(outcome.grads[i], one.golden["grads"][i]) < tolerance);
      }
    }
  }
}

}  // namespace

TEST_CASE("a loss keeps its digits where logits are large") {
  // log(1 + 1 / e), PyTorch's result.
  for (const double high : {10.0, 1e4, 1e6}) {
    CAPTURE(high);
    const Tensor logits = from_vector(std::vector<double>{high, high - 1}, {1, 2});
    const Tensor x = untracked::cast(logits, DType::f32).requires_grad_();
    const Tensor loss = cross_entropy(x, zeros({1}, {.dtype = DType::i64}));
    CHECK(loss.item() == doctest::Approx(0.31326169).epsilon(1e-6));
    loss.backward();
    CHECK(x.grad().to_vector<double>()[0] == doctest::Approx(-0.26894142).epsilon(1e-6));
    CHECK(x.grad().to_vector<double>()[1] == doctest::Approx(0.26894142).epsilon(1e-6));
  }
}

TEST_CASE("functions give PyTorch's values and gradients") {
  CHECK(function_cases().size() > 40);
  check_golden_numbers({});
}

TEST_CASE("GPU: functions give PyTorch's values and gradients" * on_gpu()) {
  check_golden_numbers({DeviceType::cuda, 0});
}

TEST_CASE("gradients equal finite differences") {
  for (const FunctionCase& one : function_cases()) {
    // The first updates running statistics, the second skips the padding row: see below.
    if (one.name == "batch_norm_training" || one.name == "embedding") continue;
    CAPTURE(one.name);
    const std::vector<Tensor> inputs = one.inputs(DType::f64);
    std::vector<Tensor> varied;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (one.wants_gradient(i)) varied.push_back(inputs[i]);
    check_gradients(
        [&](const std::vector<Tensor>& leaves) {
          std::vector<Tensor> all = inputs;
          size_t next = 0;
          for (size_t i = 0; i < all.size(); ++i)
            if (one.wants_gradient(i)) all[i] = leaves[next++];
          return one.function(all);
        },
        varied, 2e-6, 1e-6);
  }
  check_gradients(
      [](const auto& in) { return batch_norm(in[0], {}, {}, in[1], in[2], {.training = true}); },
      {random_f64({3, 2, 4}), random_f64({2}), random_f64({2})});
  const Tensor index = from_vector<int64_t>({2, 0, 2}, {3});
  check_gradients([&](const auto& in) { return embedding(index, in[0]); }, {random_f64({4, 3})});
}

TEST_CASE("16-bit results are as exact as their dtype") {
  for (const FunctionCase& one : function_cases()) {
    for (DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(one.name);
      CAPTURE(name_of(dtype));
      const std::vector<Tensor> narrow = one.inputs(dtype);
      const Outcome want = run(one, rounded(narrow)), got = run(one, narrow);
      // Allows some roundings: of the result, and of intermediates between two kernels.
      const double tolerance = dtype == DType::bf16 ? 0.02 : 0.0025;
      CHECK(largest_error(got.y, want.y) < tolerance);
      for (size_t i = 0; i < got.grads.size(); ++i) {
        CAPTURE(i);
        if (one.wants_gradient(i))
          CHECK(largest_error(got.grads[i], want.grads[i]) < 2 * tolerance);
      }
    }
  }
}

TEST_CASE("16-bit gradients have the dtype of their input and losses are f32") {
  const Tensor x = untracked::cast(hashed({4, 3}, 1), DType::bf16).requires_grad_();
  const Tensor loss = cross_entropy(x, from_vector<int64_t>({0, 1, 2, 0}, {4}));
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.ndim() == 0);
  loss.backward();
  CHECK(x.grad().dtype() == DType::bf16);
  CHECK(mse_loss(x, x.detach()).dtype() == DType::f32);
  CHECK(nll_loss(x, from_vector<int64_t>({0, 1, 2, 0}, {4})).dtype() == DType::f32);
}

namespace {

// Returns the same values in a layout without dense runs: reversed dimensions, every second
// element.
Tensor strided_copy(const Tensor& x) {
  Shape reversed;
  std::vector<int> order;
  for (int i = x.ndim() - 1; i >= 0; --i) {
    reversed.push_back(2 * x.shape()[i] + 1);
    order.push_back(i);
  }
  const Tensor storage = untracked::permute(zeros(reversed, {x.dtype(), x.device()}), order);
  Shape strides = storage.strides();
  int64_t offset = 0;
  for (int i = 0; i < strides.ndim(); ++i) {
    offset += strides[i];
    strides[i] *= 2;
  }
  Tensor window = untracked::strided(storage, x.shape(), strides, offset);
  return window.copy_(x);
}

}  // namespace

TEST_CASE("strided inputs give what dense ones give") {
  for (const FunctionCase& one : function_cases()) {
    CAPTURE(one.name);
    std::vector<Tensor> dense = one.inputs(DType::f32), strided;
    for (const Tensor& x : dense) strided.push_back(strided_copy(x));
    const Outcome want = run(one, dense), got = run(one, strided);
    CHECK(largest_error(got.y, want.y) < 1e-6);
    for (size_t i = 0; i < got.grads.size(); ++i)
      if (one.wants_gradient(i)) CHECK(largest_error(got.grads[i], want.grads[i]) < 1e-6);
  }
}

TEST_CASE("a gradient that arrives strided gives what a dense one gives") {
  for (const FunctionCase& one : function_cases()) {
    CAPTURE(one.name);
    std::vector<Tensor> first = one.inputs(DType::f32), second = one.inputs(DType::f32);
    for (size_t i = 0; i < first.size(); ++i) {
      if (!one.wants_gradient(i)) continue;
      first[i].requires_grad_();
      second[i].requires_grad_();
    }
    const Tensor y = one.function(first), z = one.function(second);
    if (y.ndim() == 0) continue;
    const Tensor g = hashed(y.shape(), 7);
    backward(y, {.grad = g});
    backward(z, {.grad = strided_copy(g)});
    for (size_t i = 0; i < first.size(); ++i)
      if (one.wants_gradient(i))
        CHECK(largest_error(second[i].grad().to_vector<double>(),
                            first[i].grad().to_vector<double>()) < 1e-6);
  }
}

TEST_CASE("empty batches pass through forward and backward") {
  const auto leaf = [](const Shape& shape) { return hashed(shape, 3).requires_grad_(); };
  const Tensor weight = leaf({5, 4}), kernel = leaf({5, 4, 3, 3}), scale = leaf({4});
  const std::vector<Tensor> results = {
      softmax(leaf({0, 4}), 1),
      log_softmax(leaf({3, 0}), 1),
      linear_gelu(leaf({0, 4}), weight, leaf({5})),
      layer_norm(leaf({0, 4}), {4}, scale, scale),
      residual_layer_norm(leaf({0, 4}), leaf({0, 4}), {4}, scale, scale).normalized,
      group_norm(leaf({0, 4, 2}), 2, scale, scale),
      batch_norm(leaf({0, 4, 2}), ones({4}), ones({4}), scale, scale),
      conv2d(leaf({0, 4, 6, 6}), kernel, leaf({5})),
      max_pool2d(leaf({0, 4, 6, 6}), 2),
      avg_pool2d(leaf({0, 4, 6, 6}), 2),
      adaptive_avg_pool2d(leaf({0, 4, 6, 6}), 2),
      attention_packed(leaf({0, 5, 3, 2, 4})),
      attention(leaf({2, 2, 0, 4}), leaf({2, 2, 3, 4}), leaf({2, 2, 3, 4})),
      embedding(zeros({0}, {.dtype = DType::i64}), weight),
      dropout(leaf({0, 4}), 0.5),
      cross_entropy(leaf({0, 4}), zeros({0}, {.dtype = DType::i64}), {.reduction = Reduction::sum}),
  };
  for (const Tensor& y : results) {
    CAPTURE(y.shape().to_string());
    backward(y, {.grad = zeros(y.shape())});
  }
  CHECK(sum(kernel.grad()).item() == 0);
  CHECK(sum(scale.grad()).item() == 0);
  CHECK(cross_entropy(leaf({0, 4}), zeros({0}, {.dtype = DType::i64})).item() !=
        cross_entropy(leaf({0, 4}), zeros({0}, {.dtype = DType::i64})).item());  // nan
}

TEST_CASE("losses of equal logits that are large are those of small ones") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const double logit : {1e9, 1e20, -1e20, 1e30, -3.3895314e38}) {
      CAPTURE(logit);
      const Tensor x = full({2, 4}, logit, {.dtype = dtype}).requires_grad_();
      const Tensor loss = cross_entropy(x, from_vector<int64_t>({0, 1}, {2}));
      CHECK(loss.item() == doctest::Approx(1.3862944).epsilon(1e-7));
      loss.backward();
      CHECK(x.grad().to_vector<double>() ==
            std::vector<double>{-0.375, 0.125, 0.125, 0.125, 0.125, -0.375, 0.125, 0.125});
    }
}

TEST_CASE("a mean over classes without weight is nan, as PyTorch's") {
  const Tensor x = hashed({2, 5}, 1, -2, 2).detach().requires_grad_();
  const Tensor loss = cross_entropy(
      x, from_vector<int64_t>({1, 3}, {2}),
      {.weight = from_vector<float>({1, 0, 0.3f, 0, 0}, {5}), .label_smoothing = 0.1});
  CHECK(std::isnan(loss.item()));
  loss.backward();
  for (const double d : x.grad().to_vector<double>()) CHECK(std::isnan(d));
}

TEST_CASE("losses and norms take a change of what only unwanted gradients would read") {
  using F = Tensor (*)(const Tensor&, const Tensor&);
  const F functions[] = {
      [](const Tensor& x, const Tensor& wanted) { return rms_norm(x, {4}, wanted); },
      [](const Tensor& x, const Tensor& wanted) { return kl_div(wanted, reshape(x, {4})); },
      [](const Tensor& x, const Tensor& wanted) {
        return cross_entropy(x, reshape(wanted, {1, 4}));
      },
      [](const Tensor& x, const Tensor& wanted) {
        return linear_gelu(x, reshape(wanted, {1, 4}));
      }};
  for (const F function : functions) {
    const Tensor x = full({1, 4}, 0.25);
    Tensor wanted = full({4}, 0.25).requires_grad_();
    const Tensor y = sum(function(x, wanted));
    {
      const NoGradGuard no_grad;
      wanted.mul_(0.5);
    }
    y.backward();
    CHECK(wanted.grad().defined());
  }
}

TEST_CASE("softmax and log_softmax of a tensor in another memory order equal those of a copy") {
  for (const unsigned seed : draws(220)) {
    std::mt19937 random(seed);
    std::vector<int> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    const auto draw = [&](unsigned choices) { return static_cast<int64_t>(random() % choices); };
    const Tensor base = normal({2 + draw(4), 5, 1 + draw(40)}).to(DType::f64);
    const int64_t dim = draw(3);
    const bool logarithm = draw(2) == 1;
    const auto of = [&](const Tensor& x) {
      return logarithm ? log_softmax(x, dim) : softmax(x, dim - 3);
    };
    const Tensor x = base.clone().requires_grad_();
    const Tensor copy = base.clone().requires_grad_();
    const Tensor y = of(permute(x, order)), want = of(contiguous(permute(copy, order)));
    REQUIRE(y.shape() == want.shape());
    const Tensor weights = normal(want.shape()).to(DType::f64);
    backward(sum(y * weights));
    backward(sum(want * weights));
    const auto check = [](const Tensor& a, const Tensor& b) {
      const auto got = a.to_vector<double>(), expected = b.to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-9));
    };
    check(y, want);
    check(x.grad(), copy.grad());
  }
}
