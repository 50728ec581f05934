// A training whose steps are all skipped is reported once, with the reason; a search for a loss
// scale is not.
#include "booster/booster.h"
#include "booster/training/skipped_steps.h"
#include "core/tensor/host_reads.h"
#include "tests/occurrences.h"
#include "tests/parallel/ranks.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;
using booster::testing::occurrences;
using namespace booster::testing;

namespace {

constexpr int64_t interval = SkippedSteps::interval;
constexpr const char* told = "steps in a row were skipped";

struct AScale : Precision {
  explicit AScale(bool seeks) : seeks(seeks) {}
  bool seeks_scale() const override { return seeks; }
  bool seeks;
};

Verdict verdict(bool skipped, double scale = 0) {
  const Tensor number = scale > 0 ? scalar(scale, {.dtype = DType::f32}) : Tensor();
  return {scalar(skipped ? 1 : 0, {.dtype = DType::f32}), {}, number};
}

SGD optimizer_of_one() { return SGD({ones({2}).requires_grad_()}, {.lr = 0.1}); }

}  // namespace

TEST_CASE("a row of skipped steps is told once if it is long, and never if it is short") {
  const SGD optimizer = optimizer_of_one();
  const FP32Precision precision;
  std::mt19937 random(5);
  for (int n = 0; n < 200; ++n) {
    SkippedSteps skips;
    int64_t row = 0, told_of_row = 0;
    for (int step = 0; step < 200; ++step) {
      // Rows of skipped steps of every length around the reporting limit.
      const bool skipped = random() % 100 < (row == 0 ? 30 : 94);
      if (!skipped && row >= 2 * interval - 1) CHECK(told_of_row == 1);
      row = skipped ? row + 1 : 0;
      if (row == 0) told_of_row = 0;
      skips.add(verdict(skipped));
      if (!skips.is_due()) continue;
      const std::string text = skips.look(precision, optimizer, false);
      told_of_row += !text.empty();
      CHECK(told_of_row <= 1);
      if (!text.empty()) CHECK(row >= interval);
    }
  }
}

TEST_CASE("steps that are skipped while the loss scale comes down are not told, until it is at 1") {
  const SGD optimizer = optimizer_of_one();
  for (const bool seeks : {true, false}) {
    SkippedSteps skips;
    double scale = 0x1p24;
    int64_t steps = 0;
    std::string text;
    for (; text.empty() && steps < 100; ++steps, scale /= 2) {
      skips.add(verdict(true, scale));
      if (skips.is_due()) text = skips.look(AScale(seeks), optimizer, false);
    }
    CHECK(steps == (seeks ? 3 * interval : interval));  // the scale is 2^-5 then
    CHECK((text.find("the loss scale stays 32768") != text.npos) == !seeks);
  }
}

TEST_CASE("a run that ends before any step was taken says so") {
  const SGD optimizer = optimizer_of_one();
  SkippedSteps all, some;
  for (const bool skipped : {true, true, true}) all.add(verdict(skipped));
  for (const bool skipped : {false, true, true}) some.add(verdict(skipped));
  CHECK(all.look(FP32Precision(), optimizer, true).starts_with("fp32: 3 steps in a row were sk"));
  CHECK(some.look(FP32Precision(), optimizer, true) == "");
}

TEST_CASE("the reason names a parameter that is not finite") {
  const SGD optimizer = optimizer_of_one();
  SkippedSteps skips;
  for (int64_t i = 0; i < interval; ++i) skips.add(verdict(true));
  Tensor(optimizer.parameters()[0].tensor.detach()).fill_(NAN);
  const std::string text = skips.look(FP32Precision(), optimizer, false);
  CHECK(text.find("parameter 0 holds inf or nan") != text.npos);
}

// The input is NaN from some step on: with every strategy that skips, rank 0 reports it once.
TEST_CASE("rank: stands still" * doctest::skip()) {
  for (const StrategyLevel& strategy : strategy_levels()) {
    manual_seed(3);
    Booster booster({.plugin = "torch_ddp", .mixed_precision = strategy.make});
    Model model = Sequential{Linear(16, 16), ReLU(), Linear(16, 16)};
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    for (int step = 0; step < 50; ++step) {
      opt.zero_grad();
      const Tensor x = full({2, 16}, step < 3 ? 1.0 : NAN);
      booster.backward(mean(cast(net(x), DType::f32)), opt);
      const int64_t before = host_reads();
      opt.step();
      CHECK(host_reads() == before);
    }
  }
}
TEST_CASE("a training whose input is NaN says that it skips, on rank 0 and once") {
  size_t skipping = 0;
  for (const StrategyLevel& strategy : strategy_levels()) skipping += strategy.skips;
  const auto results = Ranks("rank: stands still", 2).wait(120);
  CHECK(failures(results) == "");
  CHECK_MESSAGE(occurrences(results[0].output, told) == skipping, results[0].output);
  CHECK(occurrences(results[1].output, told) == 0);
}

TEST_CASE("rank: first scale too high" * doctest::skip()) {
  Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = 0x1p40})});
  Model model = Sequential{Linear(16, 16)};
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  int skipped = 0;
  for (int step = 0; step < 40; ++step) {
    opt.zero_grad();
    booster.backward(mean(cast(net(ones({2, 16})), DType::f32)), opt);
    skipped += opt.step().skipped();
  }
  CHECK(skipped >= 2 * interval - 1);
}
TEST_CASE("a first loss scale that is far too high is not a fault") {
  const auto results = Ranks("rank: first scale too high", 1).wait();
  CHECK(failures(results) == "");
  CHECK_MESSAGE(occurrences(results[0].output, told) == 0, results[0].output);
}
