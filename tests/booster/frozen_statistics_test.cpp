// Frozen batch normalisations whose statistics still change.
#include "booster/booster.h"
#include "booster/training/frozen_statistics.h"
#include "booster/training/session.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

Model two_norms() { return Sequential({BatchNorm1d(4), Linear(4, 4), BatchNorm1d(4)}); }

}  // namespace

TEST_CASE("frozen batch norms in training mode are named, others are not") {
  const Model model = two_norms();
  auto& parts = static_cast<Sequential&>(model.module());
  CHECK(frozen_statistics(*model.shared()) == "");
  parts[2].freeze();
  CHECK(contains(frozen_statistics(model.module()), "batch normalisation: 2: scale and shift"));
  parts[2].eval();
  CHECK(frozen_statistics(model.module()) == "");
  model->freeze();
  model.train();
  CHECK(contains(frozen_statistics(model.module()), "0, 2: scale and shift are frozen"));
  const Model plain = Sequential({BatchNorm1d(4, {.affine = false}), LayerNorm(4)});
  plain->freeze();
  CHECK(frozen_statistics(plain.module()) == "");
  std::vector<Model> many;
  for (int i = 0; i < 5; ++i) many.push_back(BatchNorm1d(4));
  const Model all = Sequential(many);
  all->freeze();
  CHECK(contains(frozen_statistics(all.module()), "0, 1, 2 and 2 more: "));
}

TEST_CASE("a training notes once that frozen batch norms keep moving") {
  const Model model = two_norms();
  static_cast<Sequential&>(model.module())[0].freeze();
  Booster booster;
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  CHECK_FALSE(net.session().iteration->statistics_noted);
  for (int step = 0; step < 2; ++step) {
    booster.backward(sum(net(normal({8, 4}))), optimizer);
    optimizer.step();
    CHECK(net.session().iteration->statistics_noted);
  }
}
