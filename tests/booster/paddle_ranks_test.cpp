// fp16_paddle's master_grad with ranks that average gradients.
#include "booster/booster.h"
#include "booster/training/session.h"
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/models.h"
#include "core/optim/optimizers.h"
#include "core/tensor/random/random.h"
#include "parallel/mesh.h"
#include "tests/capture_part.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

constexpr int64_t rows_in_all = 8, width = 16, classes = 4;

struct PaddleRun {
  std::shared_ptr<Booster> booster;
  BoostedPair boosted;
  Parameters parameters;
};

PaddleRun make_run(bool on_ranks, bool master_grad) {
  manual_seed(3);
  const Model model = models::mlp({width, 32, classes});
  const SGD optimizer(model.parameters(), {.lr = 0.1});
  const PrecisionMaker paddle = FP16PaddleMixedPrecision(
      {.level = "O2", .master_grad = master_grad, .init_loss_scaling = 1024.0});
  const auto booster = std::make_shared<Booster>(
      on_ranks ? BoosterOptions{.plugin = TorchDDPPlugin(), .mixed_precision = paddle}
               : BoosterOptions{.plugin = SinglePlugin({.on_every_rank = true}),
                                .mixed_precision = paddle});
  return {booster, booster->boost(model, optimizer), model.parameters()};
}

// Runs backward passes over rows first, first + stride, ... of each step's batch.
void accumulate(PaddleRun& run, int64_t first, int64_t stride, int passes) {
  auto& [net, opt] = run.boosted;
  for (int pass = 0; pass < passes; ++pass) {
    Generator generator(50 + static_cast<uint64_t>(pass));
    const Tensor x = uniform({rows_in_all, width}, -1, 1, {}, generator);
    std::vector<int64_t> rows, labels;
    for (int64_t i = first; i < rows_in_all; i += stride) {
      rows.push_back(i);
      labels.push_back(i % classes);
    }
    const auto count = static_cast<int64_t>(rows.size());
    const Tensor mine = index_select(x, 0, from_vector(rows, {count})).detach();
    const auto go_back = [&, &net = net, &opt = opt] {
      const Tensor loss = cross_entropy(cast(net(mine), DType::f32), from_vector(labels, {count}));
      run.booster->backward(loss, opt);
    };
    if (pass + 1 == passes) {
      go_back();
    } else {
      const NoSyncGuard local = run.booster->no_sync(net, opt);
      go_back();
    }
  }
}

// Returns the gradients averaged over all ranks, in the order of the parameters.
std::vector<double> gradients_of(const PaddleRun& run) {
  run.boosted.model.session().sync_grads("a test");
  std::vector<double> all;
  for (const auto& [name, parameter] : run.parameters) {
    const auto values = parameter.grad().to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double largest_difference(const std::vector<double>& a, std::vector<double> b) {
  for (size_t i = 0; i < a.size(); ++i) b[i] -= a[i];
  return largest(b);
}

// Checks that the values are the same on every rank.
void check_same_on_ranks(const std::vector<double>& values, const Group& group) {
  Tensor most = from_vector(values, {static_cast<int64_t>(values.size())});
  Tensor least = -most;
  group.all_reduce(most, CollectiveOp::max);
  group.all_reduce(least, CollectiveOp::max);
  CHECK(most.to_vector<double>() == values);
  CHECK((-least).to_vector<double>() == values);
}

}  // namespace

TEST_CASE("rank: master_grad" * doctest::skip()) {
  const World world = launch_from_env();
  PaddleRun spread = make_run(true, true), alone = make_run(false, true);
  accumulate(spread, world.rank, world.size, 3);
  accumulate(alone, 0, 1, 3);
  for (const auto& [name, parameter] : spread.parameters) {
    CAPTURE_PART(name);
    CHECK(parameter.dtype() == DType::f16);
    // Gradients are views of the communication buckets; one f32 bucket holds all.
    CHECK(parameter.grad().dtype() == DType::f32);
    CHECK(parameter.grad().shares_storage(spread.parameters[0].tensor.grad()));
  }
  const auto before = gradients_of(spread);
  check_same_on_ranks(before, world.group());
  // The activations' gradients are still f16: an error of 2^-11 each, and the same for each sum.
  const auto want = gradients_of(alone);
  CHECK(largest_difference(before, want) < 4e-3 * largest(want));

  CHECK(!spread.boosted.optimizer.step().skipped());
  CHECK(!alone.boosted.optimizer.step().skipped());
  std::vector<double> a, b;
  for (size_t i = 0; i < spread.parameters.size(); ++i) {
    const std::string& name = spread.parameters[i].name;
    for (auto [run, values] : {std::pair(&spread, &a), std::pair(&alone, &b)}) {
      const auto master = run->boosted.model.session().optimizer.master(name).to_vector<double>();
      values->insert(values->end(), master.begin(), master.end());
    }
  }
  check_same_on_ranks(a, world.group());
  CHECK(largest_difference(a, b) < 1e-4);
}
TEST_CASE("master_grad: two ranks exchange f32 sums and agree with one process on all rows") {
  CHECK(failures(Ranks("rank: master_grad", 2).wait(120)) == "");
}

TEST_CASE("rank: without master_grad" * doctest::skip()) {
  const World world = launch_from_env();
  PaddleRun spread = make_run(true, false);
  accumulate(spread, world.rank, world.size, 2);
  for (const auto& [name, parameter] : spread.parameters)
    CHECK(parameter.grad().dtype() == DType::f16);
  check_same_on_ranks(gradients_of(spread), world.group());
}
TEST_CASE("without master_grad two ranks exchange f16 sums") {
  CHECK(failures(Ranks("rank: without master_grad", 2).wait(120)) == "");
}
