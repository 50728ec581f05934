// Optimizers that compute with whole parameters, in a Booster: every strategy, ranks, checkpoints.
#include "booster/booster.h"
#include "core/optim/algorithms/registry.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

constexpr int64_t whole_rows = 12;

Model whole_model() {
  manual_seed(3);
  return models::mlp({6, 8, 8, 4});
}

// Adafactor of all parameters, or Muon of the matrices with AdamW for the vectors.
Optimizer whole_optimizer(const std::string& rule, const Model& model) {
  if (rule == "adafactor") return Adafactor(model.parameters(), {.lr = 0.05});
  Parameters matrices, vectors;
  for (const NamedTensor& one : model.parameters())
    (one.tensor.ndim() == 2 ? matrices : vectors).push_back(one);
  return Muon({{matrices}, {vectors, {{"adamw", 1}}}}, {.lr = 0.05});
}

std::pair<Tensor, Tensor> whole_batch(int step) {
  Generator generator(static_cast<uint64_t>(100 + step));
  const Tensor x = uniform({whole_rows, 6}, -1, 1, {}, generator);
  return {x, argmax(narrow(x, 1, 0, 4), -1)};
}

Tensor rows_of_rank(const Tensor& x, const World& world) {
  const int64_t each = whole_rows / world.size;
  return narrow(x, 0, world.rank * each, each);
}

std::vector<double> whole_weights(const Model& model) {
  std::vector<double> all;
  for (const auto& [name, tensor] : model.parameters())
    for (const double x : untracked::cast(tensor, DType::f64).to_vector<double>()) all.push_back(x);
  return all;
}

void boosted_steps(Booster& booster, BoostedPair& pair, int first, int last,
                   const World& world = {}) {
  for (int step = first; step < last; ++step) {
    const auto [x, label] = whole_batch(step);
    pair.optimizer.zero_grad();
    booster.backward(cross_entropy(pair.model(rows_of_rank(x, world)), rows_of_rank(label, world)),
                     pair.optimizer);
    pair.optimizer.step();
  }
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::vector<double> trained_whole_by(const std::string& rule, const char* strategy) {
  Booster booster({.plugin = "single", .mixed_precision = strategy});
  const Model model = whole_model();
  BoostedPair pair = booster.boost(model, whole_optimizer(rule, model));
  boosted_steps(booster, pair, 0, 5);
  return whole_weights(model);
}

// Returns the error of boosting with this plugin; "" without one.
std::string refusal_of(const std::string& rule, Choice<Plugin> plugin) {
  const Model model = whole_model();
  try {
    Booster booster({.plugin = std::move(plugin)});
    booster.boost(model, whole_optimizer(rule, model));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("whole optimizers train in every strategy, near fp32") {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    const std::vector<double> exact = trained_whole_by(rule, "fp32");
    CHECK(distance(exact, whole_weights(whole_model())) > 0.02);
    for (const char* strategy :
         {"fp16", "bf16", "fp16_apex", "fp16_naive", "fp16_paddle", "fp64"}) {
      CAPTURE(strategy);
      // Muon divides by the gradient's norm, so small gradients' rounding counts fully.
      CHECK(distance(trained_whole_by(rule, strategy), exact) < 0.1);
    }
  }
}

TEST_CASE("rank: whole optimizers" * doctest::skip()) {
  const World world = launch_from_env();
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    Booster booster({.plugin = "torch_ddp"});
    const Model model = whole_model();
    BoostedPair pair = booster.boost(model, whole_optimizer(rule, model));
    boosted_steps(booster, pair, 0, 5, world);
    const Model alone = whole_model();
    Optimizer optimizer = whole_optimizer(rule, alone);
    for (int step = 0; step < 5; ++step) {
      const auto [x, label] = whole_batch(step);
      optimizer.zero_grad();
      cross_entropy(alone(x), label).backward();
      optimizer.step();
    }
    CHECK(distance(whole_weights(model), whole_weights(alone)) < (rule == "muon" ? 0.01 : 1e-5));
    for (const char* sharding : {"low_level_zero", "fsdp"})
      CHECK(refusal_of(rule, sharding)
                .find("it computes with whole parameters, but ranks would "
                      "share") != std::string::npos);
    CHECK(
        refusal_of(rule, HybridParallelPlugin({.tp_size = 2}))
            .find(rule + " computes with whole parameters, but ranks cut layers; got tp_size 2") !=
        std::string::npos);
  }
}

TEST_CASE("whole optimizers on two ranks equal one process; sharding plugins refuse them") {
  for (const RankResult& result : Ranks("rank: whole optimizers", 2).wait())
    CHECK_MESSAGE(result.passed(), result.output);
}

TEST_CASE("a checkpoint holds the state of whole optimizers, whatever its shapes") {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    const TemporaryFolder root;
    Booster booster;
    const Model model = whole_model();
    BoostedPair pair = booster.boost(model, whole_optimizer(rule, model));
    boosted_steps(booster, pair, 0, 3);
    save_training(root.path(), pair, {.step = 3});
    const Model other = whole_model();
    BoostedPair resumed = booster.boost(other, whole_optimizer(rule, other));
    REQUIRE(resume_training(root.path(), resumed, [](const std::string&) {}));
    CHECK(whole_weights(other) == whole_weights(model));
    boosted_steps(booster, pair, 3, 5);
    boosted_steps(booster, resumed, 3, 5);
    CHECK(whole_weights(other) == whole_weights(model));
  }
}

TEST_CASE("a Booster refuses LBFGS, whose step evaluates the loss several times") {
  const Model model = whole_model();
  Booster booster;
  CHECK_THROWS_WITH_AS(booster.boost(model, LBFGS(model.parameters())),
                       doctest::Contains("a step of lbfgs evaluates the loss several times"),
                       Error);
}
