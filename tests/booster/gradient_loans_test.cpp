// Gradients as a program reads them in a boosted training, where they are scaled in memory.
#include "booster/booster.h"
#include "core/autograd/gradient_keeper.h"
#include "tests/mixed_precision/weight.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace booster;
using booster::testing::strategy_levels;
using booster::testing::StrategyLevel;
using booster::testing::Weight;

namespace {

struct Loop {
  explicit Loop(const Choice<Precision>& strategy, double lr = 0.125)
      : booster({.mixed_precision = strategy}),
        model(module),
        boosted(booster.boost(model, SGD(model.parameters(), {.lr = lr}))) {}

  void backward(double slope) {
    booster.backward(sum(cast(boosted.model(full({2}, slope)), DType::f32)), boosted.optimizer);
  }
  std::vector<double> seen() const { return module->w.grad().to_vector<double>(); }
  // Returns the gradients as the step reads them.
  std::vector<double> in_memory() const {
    const GradientKeeper::Scope raw;
    return seen();
  }
  double weight() const {
    const Tensor master = boosted.optimizer.unwrap().master("w");
    return (master.defined() ? master : module->w).to_vector<double>()[0];
  }

  Booster booster;
  std::shared_ptr<Weight> module = std::make_shared<Weight>(ones({2}));
  Model model;
  BoostedPair boosted;
};

using Values = std::vector<double>;

}  // namespace

TEST_CASE("after a step a gradient of 3 is 3 in every strategy, and 6 after another pass") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    Loop loop(strategy.make);
    loop.backward(3);
    loop.boosted.optimizer.step();
    CHECK(loop.seen() == Values{3, 3});
    CHECK(loop.seen() == Values{3, 3});
    loop.backward(3);  // adds to the existing gradients, whether they were read or not
    loop.boosted.optimizer.step();
    CHECK(loop.seen() == Values{6, 6});
    CHECK(loop.weight() == 1 - 0.125 * 9);
    loop.boosted.optimizer.zero_grad();
    CHECK_FALSE(loop.module->w.grad().defined());
  }
}

TEST_CASE("a skipped step leaves what overflowed, to be seen as such") {
  Loop loop("fp16");
  loop.backward(INFINITY);
  CHECK(loop.boosted.optimizer.step().skipped());
  CHECK(loop.seen() == Values{INFINITY, INFINITY});
}

TEST_CASE("before a clip or a step gradients are those in memory, as before torch's unscale_") {
  Loop loop("fp16");
  loop.backward(3);
  CHECK(loop.seen() == Values{3 * 65536, 3 * 65536});
  loop.boosted.optimizer.step();
  loop.backward(1);
  CHECK(loop.seen() == Values{4 * 65536, 4 * 65536});
}

TEST_CASE("looking costs no write: memory stays scaled, and the next step is the same") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    Loop looked(strategy.make), other(strategy.make);
    for (Loop* loop : {&looked, &other}) {
      loop->backward(3);
      loop->boosted.optimizer.step();
    }
    const Values before = looked.in_memory();
    CHECK(looked.seen() == Values{3, 3});
    CHECK(looked.in_memory() == before);
    for (Loop* loop : {&looked, &other}) {
      loop->backward(0.7);
      loop->boosted.optimizer.clip_grad_by_norm(0.3);
      if (loop == &looked) loop->seen();
      loop->boosted.optimizer.step();
    }
    CHECK(looked.weight() == other.weight());
  }
}

TEST_CASE("after a clip by norm gradients are true and clipped, though the step applies the clip") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    Loop loop(strategy.make);
    const auto close_to = [](double x) { return doctest::Approx(x).epsilon(1e-3); };
    loop.backward(3);
    loop.boosted.optimizer.clip_grad_by_norm(std::sqrt(2.0));
    for (const double g : loop.seen()) CHECK(g == close_to(1));
    loop.boosted.optimizer.step();
    for (const double g : loop.seen()) CHECK(g == close_to(1));
    CHECK(loop.weight() == close_to(1 - 0.125));
  }
}

TEST_CASE("a 16-bit gradient is seen in f32, with the digits that the loss scale saved") {
  Loop loop("fp16_naive");
  loop.booster.backward(sum(loop.boosted.model(ones({2}))) * 0x1p-30, loop.boosted.optimizer);
  loop.boosted.optimizer.step();
  CHECK(loop.module->w.grad().dtype() == DType::f32);
  CHECK(loop.seen() == Values{0x1p-30, 0x1p-30});
}

TEST_CASE("what a program writes into gradients counts, whenever it does") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    Loop loop(strategy.make);
    const auto double_them = [&] { Tensor(loop.module->w.grad()).mul_(2); };
    loop.backward(1);
    double_them();  // in memory: scaled or not, it doubles
    loop.boosted.optimizer.step();
    CHECK(loop.weight() == 1 - 0.25);
    double_them();  // in a copy
    loop.boosted.optimizer.step();
    CHECK(loop.weight() == 1 - 0.75);
    double_them();
    loop.backward(1);
    loop.boosted.optimizer.step();
    CHECK(loop.weight() == 1 - 0.75 - 0.125 * 9);
  }
}

TEST_CASE("gradients of an optimizer that has stepped stay true while others have passes") {
  Booster booster({.mixed_precision = "fp16"});
  const std::array modules = {std::make_shared<Weight>(ones({2})),
                              std::make_shared<Weight>(ones({2}))};
  const std::vector<Model> models = {Model(modules[0]), Model(modules[1])};
  auto [nets, opts] = booster.boost(
      models, {SGD(models[0].parameters(), {.lr = 0.1}), SGD(models[1].parameters(), {.lr = 0.1})});
  booster.backward(sum(nets[0](full({2}, 3))), opts[0]);
  opts[0].step();
  booster.backward(sum(nets[1](full({2}, 5))), opts[1]);
  CHECK(modules[0]->w.grad().to_vector<double>() == Values{3, 3});
  CHECK(modules[1]->w.grad().to_vector<double>() == Values{5 * 65536, 5 * 65536});
  opts[1].step();
  CHECK(modules[1]->w.grad().to_vector<double>() == Values{5, 5});
}
