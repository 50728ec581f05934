// torch_ddp with ranks that use different parameters: searched in each step, or known from the
// first.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/optim/optimizers.h"
#include "parallel/mesh.h"
#include "plugins/torch_ddp.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

using namespace booster;

namespace {

constexpr size_t count = 9;

struct Holder : Module {
  Holder() : Module("Holder") {
    for (size_t i = 0; i < count; ++i)
      add_parameter("p" + std::to_string(i), ones({static_cast<int64_t>(i % 4 + 1)}));
  }
  Tensor forward(const Tensor& x) override { return x; }
};

// Returns the parameters that each rank uses, in order of use.
std::vector<std::vector<size_t>> drawn_uses(std::mt19937& random, int ranks) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  std::shuffle(all.begin(), all.end(), random);
  std::vector<std::vector<size_t>> uses(static_cast<size_t>(ranks));
  for (auto& mine : uses)
    for (const size_t i : all)
      if (random() % 3 != 0 && i != 5) mine.push_back(i);  // no rank uses p5
  return uses;
}

// A pass adds `factor` x (rank + 1) to the gradients of the parameters that a rank uses. The plain
// model adds the mean over the ranks, or nothing.
class Passes {
 public:
  Passes(const TorchDDPOptions& options, std::vector<std::vector<size_t>> uses, const World& world)
      : uses_(std::move(uses)), world_(world), plugin_(options), want_(count) {
    plugin_.shard(model_, optimizer_);
    plugin_.prepare(model_, optimizer_);
  }

  void backward(double factor, bool sync) {
    Tensor loss = zeros({});
    for (const size_t i : uses_[static_cast<size_t>(world_.rank)])
      loss = loss + sum(parameter(i) * (factor * (world_.rank + 1)));
    PassScope pass = plugin_.begin({.pass = Pass::backward, .sync = sync});
    if (loss.requires_grad()) booster::backward(loss);
    pass.end();
    for (int rank = 0; rank < world_.size; ++rank)
      for (const size_t i : uses_[static_cast<size_t>(rank)])
        want_[i] = want_[i].value_or(0) + factor * (rank + 1) / world_.size;
    is_local_ |= !sync;
    if (sync) is_local_ = false;
  }
  void sync_grads() {
    plugin_.sync_grads(optimizer_);
    is_local_ = false;
  }
  void zero_grad() {
    optimizer_.zero_grad();
    want_.assign(count, std::nullopt);
  }
  void compare() const {
    if (is_local_) return;
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const Tensor grad = parameter(i).grad();
      REQUIRE(grad.defined() == want_[i].has_value());
      if (grad.defined())
        CHECK(grad.to_vector<double>() ==
              std::vector<double>(static_cast<size_t>(grad.numel()), *want_[i]));
    }
  }

 private:
  Tensor parameter(size_t i) const { return model_.parameters()[i].tensor; }

  Model model_ = Model(std::make_shared<Holder>());
  Optimizer optimizer_ = SGD(model_.parameters(), {.lr = 1});
  std::vector<std::vector<size_t>> uses_;
  World world_;
  TorchDdp plugin_;
  std::vector<std::optional<double>> want_;
  bool is_local_ = false;
};

void play(int seed, const World& world) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const TorchDDPOptions options = {.bucket_cap_mb = random() % 2 ? 1e-5 : 25,
                                   .find_unused_parameters = random() % 2 == 0,
                                   .gradient_as_bucket_view = random() % 2 == 0,
                                   .static_graph = true};
  TorchDDPOptions chosen = options;
  if (seed % 3 == 0) chosen.find_unused_parameters = !(chosen.static_graph = false);
  Passes passes(chosen, drawn_uses(random, world.size), world);
  for (int step = 0; step < 6; ++step) {
    CAPTURE(step);
    const unsigned local = random() % 3;
    const auto factor = [&] { return 12.0 * (1 + random() % 8); };
    for (unsigned i = 0; i < local; ++i) passes.backward(factor(), false);
    if (local == 0 || random() % 3 != 0) passes.backward(factor(), true);
    if (random() % 8 != 0) passes.sync_grads();
    passes.compare();
    if (random() % 3 != 0) passes.zero_grad();
    passes.compare();
  }
}

}  // namespace

TEST_CASE("rank: random uses" * doctest::skip()) {
  const World world = launch_from_env();
  for (const unsigned seed : testing::draws(120)) {
    CAPTURE(seed);
    play(seed, world);
  }
}
TEST_CASE("gradients are the means over the ranks, whichever parameters each of them uses") {
  run_ranks("rank: random uses", 2);
  run_ranks("rank: random uses", 3);
}

TEST_CASE("rank: another graph" * doctest::skip()) {
  const World world = launch_from_env();
  Model model(std::make_shared<Holder>());
  SGD optimizer(model.parameters(), {.lr = 1});
  TorchDdp plugin({.static_graph = true});
  plugin.shard(model, optimizer);
  plugin.prepare(model, optimizer);
  const auto pass = [&](std::vector<size_t> uses) {
    Tensor loss = zeros({});
    for (const size_t i : uses) loss = loss + sum(model.parameters()[i].tensor);
    PassScope scope = plugin.begin({.pass = Pass::backward});
    backward(loss);
    scope.end();
    optimizer.zero_grad();
  };
  pass({0, 1});
  pass({1, 0});
  const bool other = world.rank == 0;  // the other rank does not wait forever
  if (!other) return pass({0, 1});
  CHECK_THROWS_WITH_AS(pass({0, 2}),
                       doctest::Contains("p1 got no gradient in this step, but one in the first"),
                       Error);
}
TEST_CASE("another set of parameters than the first one is an error that names one") {
  run_ranks("rank: another graph", 2);
}

TEST_CASE("rank: order of use" * doctest::skip()) {
  const World world = launch_from_env();
  Parameters parameters;
  for (int i = 0; i < 4; ++i) parameters.push_back({"p", ones({1}).requires_grad_()});
  StaticGraph graph;
  graph.begin(parameters);
  const std::vector<int64_t> mine =
      world.rank == 0 ? std::vector<int64_t>{3, 0} : std::vector<int64_t>{2, 3};
  for (const int64_t i : mine) graph.reach(i);
  graph.learn(parameters, world.group());
  CHECK(graph.order() == std::vector<int64_t>{2, 3, 0});
  for (int64_t i = 0; i < 4; ++i)
    CHECK(graph.is_used_here(i) == (std::ranges::find(mine, i) != mine.end()));
}
TEST_CASE("ranks agree on the order in which gradients come") {
  run_ranks("rank: order of use", 2);
}

TEST_CASE("buckets that are packed again fill in the order given, and gradients move with them") {
  Parameters parameters;
  for (int i = 0; i < 3; ++i) parameters.push_back({"p", ones({2}).requires_grad_()});
  GradientBuckets buckets(Group(), {.cap_bytes = 16});
  buckets.add(parameters);
  CHECK(buckets.count() == 2);
  backward(sum(parameters[1].tensor) * 3);
  buckets.pack_again({1, 0}, {true, true, false});
  CHECK(buckets.count() == 1);
  const auto place = [&](int64_t i) { return static_cast<float*>(buckets.window(i).data()); };
  CHECK(place(0) == place(1) + 2);
  CHECK_FALSE(buckets.window(2).defined());
  CHECK(parameters[1].tensor.grad().same_body(buckets.window(1)));
  CHECK(buckets.window(1).to_vector<float>() == std::vector<float>{3, 3});
}
