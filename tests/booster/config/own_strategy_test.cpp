// The strategy of examples/own_strategy with several optimizers, one of which overflows.
#include "examples/own_strategy/own_strategy.cpp"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using booster::testing::Weight;

namespace {

constexpr double rate = 0.125;

struct TwoModels {
  void backward(size_t model, double slope) {
    booster.backward(group.models[model](full({}, slope)), group.optimizers[model]);
  }
  bool step(size_t model) { return !group.optimizers[model].step().skipped(); }

  Booster booster = Booster({.mixed_precision = StaticScalePrecision(1024, {})});
  std::array<std::shared_ptr<Weight>, 2> modules = {std::make_shared<Weight>(ones({})),
                                                    std::make_shared<Weight>(ones({}))};
  BoostedGroup group = booster.boost({Model(modules[0]), Model(modules[1])},
                                     {SGD(Model(modules[0]).parameters(), {.lr = rate}),
                                      SGD(Model(modules[1]).parameters(), {.lr = rate})});
};

}  // namespace

TEST_CASE("own strategy: an overflow in one optimizer's gradients skips its step alone") {
  for (const size_t bad : {0, 1})
    for (const size_t first : {0, 1}) {
      CAPTURE(bad);
      CAPTURE(first);
      TwoModels both;
      const size_t good = 1 - bad;
      both.backward(bad, INFINITY);
      both.backward(good, 2);
      for (const size_t i : {first, 1 - first}) CHECK(both.step(i) == (i == good));
      CHECK(both.modules[bad]->w.item() == 1);
      CHECK(both.modules[good]->w.item() == 1 - 2 * rate);
      CHECK_FALSE(both.step(bad));  // the overflowed gradients are still there
      CHECK(both.step(good));
      CHECK(both.modules[good]->w.item() == 1 - 4 * rate);
      for (BoostedOptimizer& optimizer : both.group.optimizers) optimizer.zero_grad();
      for (const size_t i : {0, 1}) both.backward(i, 1);
      for (const size_t i : {0, 1}) {
        CHECK(both.step(i));
        CHECK(both.modules[i]->w.grad().item() == 1);  // without scale or earlier gradients
      }
      CHECK(both.modules[bad]->w.item() == 1 - rate);
      CHECK(both.modules[good]->w.item() == 1 - 5 * rate);
    }
}

TEST_CASE("own strategy: a clip by value does not hide what overflowed") {
  TwoModels both;
  both.backward(0, INFINITY);
  both.backward(1, 4);
  for (BoostedOptimizer& optimizer : both.group.optimizers) optimizer.clip_grad_by_value(1);
  CHECK_FALSE(both.step(0));
  CHECK(both.step(1));
  CHECK(both.modules[0]->w.item() == 1);
  CHECK(both.modules[1]->w.item() == 1 - rate);
}
