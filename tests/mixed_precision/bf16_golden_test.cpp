// Trainings under bf16 autocast against PyTorch: the purpose of round_gradients, and the cost of
// omitting it.
#include "mixed_precision/strategies/bf16.h"

#include "core/autograd/functions.h"
#include "core/nn/criterion.h"
#include "core/nn/layers.h"
#include "core/nn/models.h"
#include "core/optim/optimizers.h"
#include "core/tensor/tensor.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::hashed;
using booster::testing::Json;

namespace {

Json golden() {
  std::ifstream file(test::golden_folder() + "/mixed_precision/bf16_training.json");
  return Json::parse(file);
}

// Returns `network` of make_bf16.py with its weights.
Model network(const std::string& name) {
  Model model = name == "mlp" ? models::mlp({16, 32, 32, 10})
                              : Model(Sequential{Conv2d(2, 6, {3, 3}), ReLU(), Conv2d(6, 4, {3, 3}),
                                                 ReLU(), Flatten(), Linear(100, 10)});
  const NoGradGuard no_grad;
  uint32_t seed = 0;
  for (auto& [_, p] : model.parameters()) {
    const double fan_in = static_cast<double>(p.numel() / p.size(0));
    p.copy_(hashed(p.shape(), seed++) * (p.ndim() < 2 ? 0.05 : 1.5 / std::sqrt(fan_in)));
  }
  return model;
}

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;  // of the first step
};

Run train(const Json& wanted, bool round_gradients) {
  const BF16 precision({.round_gradients = round_gradients});
  const Model model = network(wanted["name"]);
  const Tensor x = hashed(testing::shape_of(wanted["input"]), 100);
  std::vector<int64_t> target;
  for (int64_t i = 0; i < x.size(0); ++i) target.push_back(i * 3 % 10);
  const Tensor labels = from_vector(target, {x.size(0)});
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Run run;
  for (size_t i = 0; i < wanted["losses"].size(); ++i) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const PolicyScope scope(precision.policy({}));
      loss = CrossEntropyLoss()(model(x), labels);
    }
    loss.backward();
    run.losses.push_back(loss.item());
    if (i == 0)
      for (const auto& [_, p] : model.parameters())
        run.gradients.push_back(p.grad().to_vector<double>());
    optimizer.step();
  }
  return run;
}

double rounded_to_bf16(double x) { return untracked::cast(scalar(x), DType::bf16).item(); }

// The number of differing values, and the largest difference in units in the last place of bf16.
struct Difference {
  int count = 0, of = 0;
  double ulps = 0;
};

Difference difference(const Run& run, const Json& wanted, bool round_first) {
  Difference all;
  for (size_t i = 0; i < run.gradients.size(); ++i) {
    const auto want = wanted["gradients"][i].get<std::vector<double>>();
    REQUIRE(run.gradients[i].size() == want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      const double exact = run.gradients[i][k];
      const double got = round_first ? rounded_to_bf16(exact) : exact;
      const double next = rounded_to_bf16(want[k]);
      ++all.of;
      if (got == next) continue;
      ++all.count;
      const double ulp = std::ldexp(1.0, std::ilogb(std::max(std::abs(next), 1e-6)) - 7);
      all.ulps = std::max(all.ulps, std::abs(got - next) / ulp);
    }
  }
  return all;
}

double largest_difference(const std::vector<double>& losses, const Json& wanted) {
  double largest = 0;
  for (size_t i = 0; i < losses.size(); ++i)
    largest = std::max(largest, std::abs(losses[i] - wanted["losses"][i].get<double>()));
  return largest;
}

}  // namespace

TEST_CASE("rounded gradients train as PyTorch's bf16 autocast, to the last place of bf16") {
  for (const Json& wanted : golden()) {
    CAPTURE(wanted["name"].get<std::string>());
    const Run run = train(wanted, true);
    const Difference first = difference(run, wanted, false);
    CHECK(first.count <= first.of / 50);  // ties of sums in another order
    CHECK(first.ulps <= 1);
    CHECK(largest_difference(run.losses, wanted) < 1e-4);
  }
}

TEST_CASE("gradients that are not rounded become PyTorch's when they are") {
  for (const Json& wanted : golden()) {
    CAPTURE(wanted["name"].get<std::string>());
    const Run run = train(wanted, false);
    const Difference first = difference(run, wanted, true), own = difference(run, wanted, false);
    CHECK(first.count <= first.of / 50);
    CHECK(own.count > own.of / 2);
  }
}
