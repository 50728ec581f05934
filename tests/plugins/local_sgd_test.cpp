// The plugin of docs/add-a-plugin.md, in every strategy: replicas train separately and are averaged
// every few steps, including masters, 16-bit weights, autocast's copies, and buffers.
#include "booster/training/session.h"
#include "examples/own_plugin/local_sgd.h"
#include "tests/parallel/ranks.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace booster;
using namespace booster::testing;
using local_sgd::LocalSGD;

namespace {

constexpr int64_t batch_rows = 8, row_size = 16;
constexpr int every = 3;

// A batch normalisation, whose statistics are buffers, between two layers.
class Net : public Module {
 public:
  Net() : Module("Net") {}
  Linear& first = add<Linear>("first", row_size, 32);
  BatchNorm2d& norm = add<BatchNorm2d>("norm", 32);
  Linear& last = add<Linear>("last", 32, row_size);

 private:
  Tensor forward(const Tensor& x) override {
    const int64_t rows = x.size(0);
    const Tensor y = norm(reshape(first(x), {rows, 32, 1, 1}));
    return last(gelu(reshape(y, {rows, 32})));
  }
};

Tensor inputs(int step, int rank) {
  Generator generator(static_cast<uint64_t>(100 * step + rank));
  return uniform({batch_rows, row_size}, -1, 1, {}, generator);
}

using Numbers = std::vector<double>;

void append(Numbers& all, const Tensor& tensor) {
  const Numbers values = tensor.to_vector<double>();
  all.insert(all.end(), values.begin(), values.end());
}

// A replica that trains on its rank's data.
class Replica {
 public:
  Replica(const StrategyLevel& strategy, const World& world, int64_t every)
      : world_(world), booster_({.plugin = LocalSGD(every), .mixed_precision = strategy.make}) {
    manual_seed(3 + static_cast<uint64_t>(world.rank));  // only rank 0's values count
    model_ = Net();
    boosted_.emplace(booster_.boost(model_, AdamW(model_.parameters(), {.lr = 0.01})));
  }

  // Steps; the loss is infinite on rank `infinite_on`, if any.
  bool step(int n, int infinite_on = -1) {
    auto& [net, opt] = *boosted_;
    opt.zero_grad();
    const Tensor y = cast(net(inputs(n, world_.rank)), DType::f32);
    const double factor = world_.rank == infinite_on ? INFINITY : 1;
    booster_.backward(mse_loss(y, inputs(n + 1000, world_.rank)) * factor, opt);
    return opt.step().skipped();
  }

  // Returns what steps update: masters, and parameters without one.
  Numbers values() const {
    Numbers all;
    for (const auto& one : boosted_->optimizer.unwrap().master_parameters())
      append(all, one.tensor);
    return all;
  }
  Numbers buffers() const {
    Numbers all;
    for (const auto& one : model_.buffers()) append(all, one.tensor);
    return all;
  }
  // Returns the model's current output, for the same input on all ranks.
  Numbers output() const {
    boosted_->model.eval();
    const Numbers y = boosted_->model(inputs(7, 0)).to_vector<double>();
    boosted_->model.train();
    return y;
  }
  // Returns "" or a 16-bit parameter that differs from its master.
  std::string stale() const {
    for (const auto& [name, tensor] : boosted_->optimizer.unwrap().parameters()) {
      const Tensor master = boosted_->optimizer.unwrap().master(name);
      if (!master.defined()) continue;
      if (untracked::cast(master, tensor.dtype()).to_vector<double>() != tensor.to_vector<double>())
        return name;
    }
    return "";
  }
  BoostedPair& boosted() { return *boosted_; }

 private:
  World world_;
  Booster booster_;
  Model model_;
  std::optional<BoostedPair> boosted_;
};

bool is_same_on_all(const Numbers& mine, const Group& group) {
  Numbers of_rank_0 = mine;
  group.broadcast(of_rank_0);
  std::vector<uint8_t> differs = {mine != of_rank_0};
  group.all_reduce(differs, CollectiveOp::max);
  return !differs[0];
}

double largest_difference(const Numbers& a, const Numbers& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// One replica averages, its twin never does: until the first mean they are equal.
void check_strategy(const StrategyLevel& strategy, const World& world) {
  const Group group = world.group();
  Replica replica(strategy, world, every), twin(strategy, world, 1000);
  CHECK(is_same_on_all(replica.values(), group));
  for (int step = 0; step < every; ++step) {
    replica.step(step), twin.step(step);
    CHECK(is_same_on_all(replica.values(), group) == (step + 1 == every));
  }
  Numbers mean_values = twin.values(), mean_buffers = twin.buffers();
  group.all_reduce(mean_values, CollectiveOp::mean);
  group.all_reduce(mean_buffers, CollectiveOp::mean);
  const double rounding = strategy.kept <= Digits::f32 ? 1e-6 : 4e-3;  // weights without a master
  CHECK(largest_difference(replica.values(), mean_values) <= rounding);
  CHECK(largest_difference(replica.buffers(), mean_buffers) <= rounding);

  for (int step = every; step < 3 * every; ++step) {
    const bool averages = (step + 1) % every == 0;
    const bool skipped = replica.step(step, step == every + 1 ? world.size - 1 : -1);
    CHECK(skipped == (strategy.skips && step == every + 1));
    CHECK(is_same_on_all(replica.values(), group) == averages);
    CHECK(is_same_on_all(replica.buffers(), group) == averages);
    CHECK(is_same_on_all(replica.output(), group) == averages);
    CHECK(replica.stale() == "");
    if (step == every + 1 && !strategy.skips) return;  // its weights are no longer finite
  }
}

}  // namespace

TEST_CASE("rank: replicas" * doctest::skip()) {
  const World world = launch_from_env();
  for (const StrategyLevel& strategy : strategy_levels()) {
    INFO(strategy.name);
    check_strategy(strategy, world);
  }
}
TEST_CASE("replicas of local_sgd are their mean after every few steps, in every strategy") {
  for (const int size : {2, 3}) CHECK(failures(Ranks("rank: replicas", size).wait(120)) == "");
}

// The mean of one replica is the replica: the same as without a plugin.
TEST_CASE("local_sgd in one process trains as single does") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(strategy.name);
    Replica alone(strategy, {}, every), never(strategy, {}, 1000);
    for (int step = 0; step < 2 * every; ++step) {
      alone.step(step), never.step(step);
      CHECK(alone.values() == never.values());
    }
  }
}

TEST_CASE("rank: saved between means" * doctest::skip()) {
  const World world = launch_from_env();
  Replica replica(strategy_levels()[0], world, 1000);
  for (int step = 0; step < every; ++step) replica.step(step);
  const Numbers before = replica.values();
  StateDict state = replica.boosted().model.unwrap().state_dict();
  replica.boosted().model.session().plugin->join(state);
  Numbers joined, mean = before;
  for (const auto& one : replica.boosted().model.unwrap().parameters())
    for (const auto& [name, tensor] : state)
      if (name == one.name) append(joined, tensor);
  world.group().all_reduce(mean, CollectiveOp::mean);
  CHECK(largest_difference(joined, mean) < 1e-6);
  CHECK(replica.values() == before);
}
TEST_CASE("a checkpoint of local_sgd between two means is the mean, and changes no replica") {
  CHECK(failures(Ranks("rank: saved between means", 2).wait()) == "");
}
