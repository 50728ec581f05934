// batch_norm_relu equals relu(batch_norm(x) + residual), whatever it fuses.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/autograd/tracking.h"
#include "core/nn/functional.h"
#include "core/nn/layers.h"
#include "core/nn/models/resnet.h"
#include "core/tensor/channels_last.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

using Values = std::vector<double>;

struct Draw {
  DType dtype;
  Shape shape;
  bool x_last, residual_last, gradient_last;
  bool training, tracks, has_weight, has_bias, has_residual, residual_is_x, x_is_leaf;
  uint64_t seed;

  std::string describe() const {
    return fmt::format(
        "{} {}, channels last {}{}{}, training {}, running {}, weight {}, bias {}, residual {}{}, "
        "leaf {}, seed {}",
        name_of(dtype), shape, x_last, residual_last, gradient_last, training, tracks, has_weight,
        has_bias, has_residual, residual_is_x, x_is_leaf, seed);
  }
};

Draw drawn(std::mt19937& random) {
  const auto coin = [&] { return random() % 2 == 0; };
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  const int64_t channels[] = {1, 2, 3, 8, 64, 130};
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  return {.dtype = dtypes[random() % 4],
          .shape = {1 + size(3), channels[random() % 6], size(9), size(9)},
          .x_last = random() % 4 != 0,
          .residual_last = coin(),
          .gradient_last = coin(),
          .training = coin(),
          .tracks = coin(),
          .has_weight = coin(),
          .has_bias = coin(),
          .has_residual = coin(),
          .residual_is_x = random() % 4 == 0,
          .x_is_leaf = coin(),
          .seed = random()};
}

// Returns y, running statistics and gradients.
std::vector<Values> results_of(const Draw& draw, bool fused) {
  Generator generator(draw.seed);
  const auto numbers = [&](const Shape& shape) { return normal(shape, 0, 1, {}, generator); };
  const auto image = [&](bool last) {
    const Tensor x = numbers(draw.shape).to(draw.dtype);
    return last ? channels_last(x) : x;
  };
  const DType wide = draw.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Shape channels = {draw.shape[1]};
  Tensor x = image(draw.x_last).requires_grad_(draw.x_is_leaf);
  Tensor residual = image(draw.residual_last).requires_grad_();
  if (!draw.has_residual) residual = {};
  if (draw.has_residual && draw.residual_is_x) residual = x;
  Tensor weight = numbers(channels).to(wide).requires_grad_();
  Tensor bias = numbers(channels).to(wide).requires_grad_();
  if (!draw.has_weight) weight = {};
  if (!draw.has_bias) bias = {};
  Tensor mean = numbers(channels).to(wide), var = square(numbers(channels)).to(wide);
  if (draw.training && !draw.tracks) mean = var = {};
  const BatchNormOptions options = {.training = draw.training, .momentum = 0.25};
  Tensor y;
  if (fused) {
    y = batch_norm_relu(x, mean, var, weight, bias, options, residual);
  } else {
    const Tensor normalized = batch_norm(x, mean, var, weight, bias, options);
    y = relu(residual.defined() ? normalized + residual : normalized);
  }
  const Tensor g = image(draw.gradient_last);
  if (y.requires_grad()) backward(y, {.grad = g});
  std::vector<Values> results;
  const auto keep = [&](const Tensor& t) {
    results.push_back(t.defined() ? t.to_vector<double>() : Values());
  };
  const auto keep_gradient = [&](const Tensor& t) { keep(t.defined() ? t.grad() : t); };
  if (is_channels_last(x)) CHECK(is_channels_last(y));
  CHECK(y.dtype() == draw.dtype);
  for (const Tensor& t : {y, mean, var}) keep(t);
  for (const Tensor& t : {x, residual, weight, bias}) keep_gradient(t);
  return results;
}

}  // namespace

TEST_CASE("batch_norm_relu has the bits of its steps, and of their gradients") {
  for (const unsigned trial : testing::draws(400)) {
    std::mt19937 random(trial);
    const Draw draw = drawn(random);
    CAPTURE(draw.describe());
    CHECK(results_of(draw, true) == results_of(draw, false));
  }
}

TEST_CASE("relu's gradient is that of the rounded number") {
  // rstd is 1 and the bias 2^-26: positive, but 0 in f16.
  const Tensor x = channels_last(zeros({2, 3, 2, 2}, {.dtype = DType::f16})).requires_grad_();
  const Tensor mean = zeros({3}), var = ones({3});
  for (const auto& [bias, gradient] : {std::pair{0x1p-26, 0.0}, {0x1p-24, 1.0}}) {
    const Tensor y = batch_norm_relu(x, mean, var, {}, full({3}, bias), {.eps = 0});
    x.set_grad({});
    backward(y, {.grad = ones(y.shape(), {.dtype = DType::f16})});
    CHECK(x.grad().to_vector<double>() == Values(24, gradient));
  }
}

TEST_CASE("batch_norm_relu passes on NaN as its steps do") {
  const Tensor x = channels_last(normal({2, 3, 4, 4}));
  const Tensor bad = full({3}, NAN);
  const Tensor y = batch_norm_relu(x, zeros({3}), ones({3}), bad);
  for (const double value : y.to_vector<double>()) CHECK(std::isnan(value));
}

TEST_CASE("with a policy for relu or add the steps are run apart") {
  const Tensor x = channels_last(normal({2, 3, 4, 4}).to(DType::bf16)).requires_grad_();
  const auto name = [&](const OpPolicy* policy, const Tensor& residual) {
    const PolicyScope scope(policy);
    const Tensor y = batch_norm_relu(x, zeros({3}), ones({3}), {}, {}, {}, residual);
    return fmt::format("{} {}", name_of(y.dtype()), edge_of(y).node->name());
  };
  OpPolicy widens, plain;
  widens.set(Op::relu, OpClass::fp32);
  CHECK(name(nullptr, {}) == "bf16 batch_norm_relu");
  CHECK(name(nullptr, x) == "bf16 batch_norm_relu");
  CHECK(name(&plain, x) == "bf16 batch_norm_relu");
  CHECK(name(&widens, {}) == "f32 relu");
  CHECK(name(nullptr, normal(x.shape())) == "f32 relu");                   // with another dtype
  CHECK(name(nullptr, normal({3, 1, 1}).to(DType::bf16)) == "bf16 relu");  // broadcast
}

TEST_CASE("ResNet-20's hooks see what they saw of steps") {
  const Model watched = models::resnet20({.num_classes = 4}),
              plain = models::resnet20({.num_classes = 4});
  plain.load_state_dict(watched.state_dict());
  int calls = 0;
  watched->apply([&](Module& module) {
    if (module.kind() != "BatchNorm2d") return;
    module.register_forward_hook([&](Module&, const Tensor&, const Tensor& y) -> Tensor {
      bool below_zero = false;
      for (const double value : y.to_vector<double>()) below_zero |= value < 0;
      CHECK(below_zero);
      ++calls;
      return {};
    });
  });
  const Tensor x = normal({4, 3, 32, 32});
  CHECK(watched(x).to_vector<float>() == plain(x).to_vector<float>());
  CHECK(calls == 19);
  for (const auto& [name, buffer] : plain.buffers())
    for (const auto& [other_name, other] : watched.buffers())
      if (name == other_name) CHECK(buffer.to_vector<double>() == other.to_vector<double>());
}
