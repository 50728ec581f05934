// fp64: trainings in double, against PyTorch, a plain loop and finite differences.
#include "booster/booster.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/models.h"
#include "core/nn/models/resnet.h"
#include "core/nn/models/vit.h"
#include "mixed_precision/strategies/fp64.h"
#include "tests/capture_part.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::hashed;
using booster::testing::Json;
using booster::testing::largest_error;

namespace {

Json golden_trainings() {
  std::ifstream file(test::golden_folder() + "/mixed_precision/fp64_training.json");
  return Json::parse(file);
}

Model network(const std::string& name) {
  if (name == "rows")
    return Sequential{Linear(12, 16), LayerNorm(16), GELU(), Linear(16, 16), Tanh(), Linear(16, 5)};
  // A bias before a normalisation would have a gradient of pure rounding, which Adam turns into
  // steps.
  return Sequential{Conv2d(2, 4, {3, 3}, {.bias = false}),
                    BatchNorm2d(4),
                    ReLU(),
                    Conv2d(4, 3, {3, 3}),
                    ReLU(),
                    Flatten(),
                    Linear(27, 5)};
}

Optimizer optimizer_for(const std::string& name, const Parameters& parameters) {
  if (name == "sgd")
    return SGD(parameters, {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  if (name == "rmsprop") return RMSprop(parameters, {.lr = 0.003, .momentum = 0.5});
  return AdamW(parameters, {.lr = 0.01, .weight_decay = 0.1});
}

// Sets the weights of make_fp64.py.
void draw_weights(const Model& model) {
  const NoGradGuard no_grad;
  uint32_t seed = 0;
  for (auto& [_, p] : model.parameters()) {
    const bool is_matrix = p.ndim() >= 2;
    const double scale =
        is_matrix ? 1.5 / std::sqrt(static_cast<double>(p.numel() / p.size(0))) : 0.05;
    p.copy_(cast(hashed(p.shape(), seed++), DType::f64) * scale + (is_matrix ? 0 : 0.5));
  }
}

std::vector<int64_t> every_third(int64_t count, int64_t classes) {
  std::vector<int64_t> target;
  for (int64_t i = 0; i < count; ++i) target.push_back(i * 3 % classes);
  return target;
}

}  // namespace

TEST_CASE("fp64 trains as PyTorch does in double, by 1e-12") {
  for (const Json& wanted : golden_trainings()) {
    CAPTURE(wanted["name"].get<std::string>());
    CAPTURE(wanted["optimizer"].get<std::string>());
    Model model = network(wanted["name"]);
    Booster booster({.mixed_precision = "fp64"});
    auto [net, opt] = booster.boost(model, optimizer_for(wanted["optimizer"], model.parameters()));
    draw_weights(model);
    const Tensor x = hashed(testing::shape_of(wanted["input"]), 100);
    const Tensor labels = from_vector(every_third(x.size(0), 5), {x.size(0)});
    std::vector<double> losses, norms;
    for (size_t i = 0; i < wanted["losses"].size(); ++i) {
      opt.zero_grad();
      const Tensor loss = cross_entropy(net(x), labels);
      booster.backward(loss, opt);
      norms.push_back(opt.clip_grad_by_norm(0.1));
      CHECK_FALSE(opt.step().skipped());
      losses.push_back(loss.item());
    }
    CHECK(largest_error(losses, wanted["losses"]) < 1e-12);
    CHECK(largest_error(norms, wanted["norms"]) < 1e-12);
    size_t next = 0;
    for (const auto& [name, p] : model.parameters()) {
      CAPTURE_PART(name);
      CHECK(p.dtype() == DType::f64);
      CHECK(largest_error(p.to_vector<double>(), wanted["parameters"][next++]) < 1e-12);
    }
  }
}

TEST_CASE("fp64 agrees with a plain loop in double by 1e-12, where fp32 is 1e-7 away") {
  constexpr int rows = 5, features = 3, steps = 40;
  const double lr = 0.1, b1 = 0.9, b2 = 0.999, eps = 1e-8, limit = 0.3;
  std::vector<float> inputs, targets;
  for (int i = 0; i < rows * features; ++i) inputs.push_back(static_cast<float>(std::sin(i + 1)));
  for (int i = 0; i < rows; ++i) targets.push_back(static_cast<float>(std::cos(3 * i)));

  std::vector<double> w(features, 0.1), m(features), v(features);
  for (int t = 1; t <= steps; ++t) {
    std::vector<double> g(features);
    for (int i = 0; i < rows; ++i) {
      double y = -targets[static_cast<size_t>(i)];
      for (int j = 0; j < features; ++j) y += inputs[static_cast<size_t>(i * features + j)] * w[j];
      for (int j = 0; j < features; ++j)
        g[j] += 2 * y * inputs[static_cast<size_t>(i * features + j)] / rows;
    }
    double norm = 0;
    for (const double x : g) norm += x * x;
    const double factor = std::min(1.0, limit / (std::sqrt(norm) + 1e-6));
    for (int j = 0; j < features; ++j) {
      m[j] = b1 * m[j] + (1 - b1) * g[j] * factor;
      v[j] = b2 * v[j] + (1 - b2) * std::pow(g[j] * factor, 2);
      const double c1 = 1 - std::pow(b1, t), c2 = 1 - std::pow(b2, t);
      w[j] -= lr * (m[j] / c1) / (std::sqrt(v[j] / c2) + eps);
    }
  }

  const auto distance = [&](const char* strategy) {
    Model model = Linear(features, 1, {.bias = false});
    Booster booster({.mixed_precision = strategy});
    auto [net, opt] = booster.boost(model, Adam(model.parameters(), {.lr = lr}));
    {
      const NoGradGuard no_grad;
      model.parameters()[0].tensor.fill_(0.1);
    }
    for (int t = 0; t < steps; ++t) {
      opt.zero_grad();
      const Tensor y = net(from_vector(inputs, {rows, features}));
      booster.backward(mse_loss(y, from_vector(targets, {rows, 1})), opt);
      opt.clip_grad_by_norm(limit);
      opt.step();
    }
    return largest_error(model.parameters()[0].tensor.to_vector<double>(), w);
  };
  CHECK(distance("fp64") < 1e-12);
  CHECK(distance("fp32") > 1e-9);
}

namespace {

struct Trial {
  const char* name;
  Model model;
  Tensor input;
};

std::vector<Trial> real_models() {
  manual_seed(3);
  const models::VitOptions vit = {.num_classes = 5,
                                  .img_size = Size2d(16, 16),
                                  .patch_size = 8,
                                  .embed_dim = 24,
                                  .depth = 2,
                                  .num_heads = 3};
  const models::Gpt2Options gpt2 = {.vocab_size = 11,
                                    .n_positions = 6,
                                    .embd_pdrop = 0,
                                    .attn_pdrop = 0,
                                    .resid_pdrop = 0,
                                    .n_embd = 24,
                                    .n_layer = 2,
                                    .n_head = 3};
  return {{"mlp", models::mlp({12, 20, 5}), hashed({4, 12}, 1)},
          {"vit", models::vit("vit_tiny_patch16_224", vit), hashed({2, 3, 16, 16}, 2)},
          {"resnet20", models::resnet20({.num_classes = 5}), hashed({3, 3, 12, 12}, 3)},
          {"gpt2", models::gpt2("gpt2", gpt2), from_vector(every_third(10, 11), {2, 5})}};
}

}  // namespace

// The step is so small that anything computed in f32 would make differences of losses mere noise,
// and that almost no ReLU changes sides.
TEST_CASE("fp64: gradients of the models are the differences of their losses") {
  constexpr double h = 1e-8;
  for (auto& [name, model, input] : real_models()) {
    CAPTURE_PART(std::string(name));
    Booster booster({.mixed_precision = "fp64"});
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    const auto loss = [&, &net = net, &input = input] {
      const Tensor y = net(input);
      CHECK(y.dtype() == DType::f64);
      return mean(square(y - 0.5));
    };
    booster.backward(loss(), opt);
    std::vector<Tensor> directions;
    double slope = 0;
    uint32_t seed = 50;
    for (const auto& [_, p] : model.parameters()) {
      directions.push_back(cast(hashed(p.shape(), seed++), DType::f64));
      CHECK(p.grad().dtype() == DType::f64);
      slope += sum(p.grad() * directions.back()).item();
    }
    const auto moved = [&, &model = model](double by) {
      const NoGradGuard no_grad;
      size_t i = 0;
      for (auto& [_, p] : model.parameters()) p.add_(directions[i++], by);
      return loss().item();
    };
    const double above = moved(h), below = moved(-2 * h);
    CHECK(slope == doctest::Approx((above - below) / (2 * h)).epsilon(1e-5));
  }
}

TEST_CASE("fp64: an optimizer and its average that have f32 state go on in f64") {
  const auto run = [](bool early) {
    Model model = Linear(3, 2);
    draw_weights(model);
    AdamW optimizer(model.parameters(), {.lr = 0.1});
    ParameterAverage average(optimizer, {.decay = 0.5});
    const auto pass = [&](const Tensor& y) { return sum(square(y)); };
    const Tensor x = hashed({4, 3}, 7);
    if (early) {  // step before boosting
      backward(pass(model(x)));
      optimizer.step();
      optimizer.zero_grad();
    }
    Booster booster({.mixed_precision = "fp64"});
    auto [net, opt] = booster.boost(model, optimizer);
    for (int i = early ? 1 : 0; i < 3; ++i) {
      opt.zero_grad();
      booster.backward(pass(net(x)), opt);
      opt.step();
      average.update();
    }
    std::vector<double> numbers;
    for (const auto& [name, tensor] : optimizer.state_dict().tensors) {
      CAPTURE_PART(name);
      CHECK(tensor.dtype() == DType::f64);
      const auto values = tensor.to_vector<double>();
      if (!name.ends_with("average")) numbers.insert(numbers.end(), values.begin(), values.end());
    }
    return numbers;
  };
  CHECK(largest_error(run(true), run(false)) < 1e-5);
}

TEST_CASE("fp64: the model is f64 with no master, and integers are not cast") {
  Model model = Sequential{Linear(4, 4), BatchNorm2d(4)};
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  FP64 precision;
  precision.prepare(model, optimizer);
  for (const auto& [name, tensor] : model.state_dict())
    if (is_floating(tensor.dtype())) CHECK(tensor.dtype() == DType::f64);
  CHECK_FALSE(optimizer.master("0.weight").defined());
  CHECK(precision.cast_input(ones({2}, {.dtype = DType::i64})).dtype() == DType::i64);
  CHECK(precision.cast_input(ones({2}, {.dtype = DType::f16})).dtype() == DType::f64);
  CHECK_THROWS_WITH_AS(cast_models({model}, Optimizers(optimizer), {.dtype = DType::f64}),
                       doctest::Contains("f64 without masters"), Error);
}
