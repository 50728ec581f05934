// Data that ranks cannot share evenly: with `join` they train like one process on the joined
// batches, including the last ones.
#include "booster/booster.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace booster;

namespace {

constexpr int64_t feature_count = 3;

struct Shares {
  int64_t samples, batch_size;  // per rank
  bool shuffle, drop_last, clips, accumulates, by_name, norm, joins_rows;
};

Shares drawn(unsigned seed) {
  std::mt19937 random(seed);
  Shares what = {.samples = 1 + static_cast<int64_t>(random() % 23),
                 .batch_size = 1 + static_cast<int64_t>(random() % 4),
                 .shuffle = random() % 2 == 0,
                 .drop_last = random() % 4 == 0,
                 .clips = random() % 2 == 0,
                 .accumulates = random() % 2 == 0,
                 .by_name = random() % 2 == 0,
                 .norm = random() % 2 == 0,
                 .joins_rows = random() % 2 == 0};
  // One mean over all batches of a step is not the sum of their means.
  if (what.accumulates) what.joins_rows = false;
  return what;
}

Model network_for(const Shares& what) {
  manual_seed(4);
  if (what.norm) return Sequential({Linear(feature_count, 8), LayerNorm(8), Tanh(), Linear(8, 1)});
  return Sequential({Linear(feature_count, 8), Tanh(), Linear(8, 1)});
}

TensorDataset samples(const Shares& what) {
  Generator generator(9);
  return TensorDataset(uniform({what.samples, feature_count}, -1, 1, {}, generator),
                       uniform({what.samples, 1}, -1, 1, {}, generator));
}

Booster joined(const Shares& what) {
  const char* mean = what.joins_rows ? "rows" : "ranks";
  if (!what.by_name) return Booster({.plugin = TorchDDPPlugin({.join = true}), .loss_mean = mean});
  return Booster::from_config(Config::from_text(
      fmt::format(R"({{"booster": {{"plugin": {{"name": "torch_ddp", "join": true}},
                      "loss_mean": "{}"}}}})",
                  mean)));
}

struct Joined {
  std::vector<double> weights;
  int64_t batches = 0, counted = 0;
};

// Trains two epochs with the same loop, for ranks and for one process.
Joined train(Booster booster, const Shares& what, int64_t batch_size) {
  Model model = network_for(what);
  const DataLoader loader = booster.prepare_dataloader(
      samples(what),
      {.batch_size = batch_size, .shuffle = what.shuffle, .drop_last = what.drop_last});
  const Optimizer sgd = SGD(model.parameters(), {.lr = 0.2, .momentum = 0.9});
  auto [net, optimizer, loss_fn, data, lr] =
      booster.boost(model, sgd, MSELoss(), loader, ConstantLR(sgd));
  Joined trained;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& [image, label] : data) {
      trained.counted += data.weight() > 0 ? image.size(0) : 0;
      const bool steps = ++trained.batches % 2 == 0 || !what.accumulates;
      std::unique_ptr<NoSyncGuard> local;
      if (!steps) local.reset(new NoSyncGuard(booster.no_sync(net, optimizer)));
      booster.backward(loss_fn(net(image), label), optimizer);
      if (!steps) continue;
      if (what.clips) optimizer.clip_grad_by_norm(0.3);
      optimizer.step();
      optimizer.zero_grad();
    }
    CHECK(data.weight() == 1);
  }
  for (const NamedTensor& parameter : model.parameters())
    for (const double x : parameter.tensor.to_vector<double>()) trained.weights.push_back(x);
  return trained;
}

}  // namespace

TEST_CASE("rank: joined training" * doctest::skip()) {
  const World world = launch_from_env();
  for (const unsigned seed : testing::draws(60)) {
    CAPTURE(seed);
    const Shares what = drawn(seed);
    if (what.drop_last && what.samples / world.size < what.batch_size) continue;  // no batch
    const Joined here = train(joined(what), what, what.batch_size);
    const Joined alone = train(Booster({.plugin = SinglePlugin({.on_every_rank = true})}), what,
                               what.batch_size * world.size);
    CHECK(here.batches == alone.batches);
    REQUIRE(here.weights.size() == alone.weights.size());
    for (size_t i = 0; i < here.weights.size(); ++i)
      CHECK(std::abs(here.weights[i] - alone.weights[i]) < 2e-5);
    std::vector<int64_t> counted = {here.counted};
    world.group().all_reduce(counted);
    CHECK(counted[0] == alone.counted);
  }
}
TEST_CASE("ranks that share data unevenly train as one process does on the joined batches") {
  run_ranks("rank: joined training", 2);
  run_ranks("rank: joined training", 3);
  run_ranks("rank: joined training", 4);
}

TEST_CASE("shares that the loader does not divide itself cannot be joined") {
  const TensorDataset data(ones({4, 1}), zeros({4, 1}));
  const auto sampler = std::make_shared<SequentialSampler>(4);
  CHECK_THROWS_WITH_AS(DataLoader(data, {.join = true, .sampler = sampler}),
                       doctest::Contains("with a sampler"), Error);
  CHECK_THROWS_WITH_AS(DataLoader(data, {.even_shares = false, .join = true}),
                       doctest::Contains("without even_shares"), Error);
}
