// Losses with separate scalers, like Apex's loss_id: in checkpoints, and over ranks.
#include "booster/booster.h"
#include "booster/training/session.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

// One model and optimizer, two losses with a scaler each.
struct TwoLosses {
  Booster booster;
  Boosted boosted;

  static PrecisionMaker apex() {
    return FP16ApexMixedPrecision({.opt_level = "O2", .num_losses = 2, .verbosity = 0});
  }
  explicit TwoLosses(const Choice<Plugin>& plugin = SinglePlugin({.on_every_rank = true}))
      : booster({.plugin = plugin, .mixed_precision = apex()}), boosted(boost()) {}
  Boosted boost() {
    manual_seed(3);
    Model model = models::mlp({4, 8, 2});
    Optimizer optimizer = SGD(model.parameters(), {.lr = 0.5, .momentum = 0.9});
    const TensorDataset data(ones({4, 4}), zeros({4}, {.dtype = DType::i64}));
    return booster.boost(model, optimizer, CrossEntropyLoss(),
                         booster.prepare_dataloader(data, {.batch_size = 2}),
                         ConstantLR(optimizer));
  }
  // Trains; loss 1 overflows in step `overflow`.
  void train(int first, int last, int overflow) {
    for (int step = first; step < last; ++step) {
      boosted.optimizer.zero_grad();
      const Tensor y = boosted.model(full({2, 4}, 0.1 * (step + 1)));
      const double factor = step == overflow ? INFINITY : 0.125;
      const Tensor loss = boosted.criterion(y, zeros({2}, {.dtype = DType::i64}));
      booster.backward(loss * 0.25, boosted.optimizer);
      booster.backward(sum(boosted.model(full({2, 4}, 0.2))) * factor, boosted.optimizer,
                       {.loss_id = 1});
      boosted.optimizer.step();
    }
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& [name, tensor] : boosted.optimizer.unwrap().master_parameters()) {
      const auto values = tensor.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

}  // namespace

TEST_CASE("checkpoints hold every loss's scaler and the masters: a resumed training goes on") {
  const TemporaryFolder folder;
  TwoLosses whole, first, second;
  whole.train(0, 6, 1);
  first.train(0, 3, 1);
  save_training(folder.path(), first.boosted, {.step = 3});
  REQUIRE(resume_training(folder.path(), second.boosted, [](const std::string&) {}));
  const PrecisionNumbers state = second.boosted.model.session().precision->state();
  CHECK(state.at("loss_scaler0.loss_scale") == 65536);
  CHECK(state.at("loss_scaler1.loss_scale") == 32768);
  CHECK(state.at("loss_scaler0.unskipped") == 3);
  CHECK(state.at("loss_scaler1.unskipped") == 1);
  second.train(3, 6, 1);
  CHECK(second.weights() == whole.weights());
}

TEST_CASE("rank: two losses" * doctest::skip()) {
  TwoLosses spread("torch_ddp"), alone;
  spread.train(0, 4, 2);
  alone.train(0, 4, 2);
  CHECK(spread.weights() == alone.weights());  // all ranks see the same data here
  CHECK(spread.boosted.model.session().precision->state() ==
        alone.boosted.model.session().precision->state());
  auto& [net, opt, loss_fn, data, lr] = spread.boosted;
  const auto local = spread.booster.no_sync(net, opt);
  CHECK_THROWS_WITH_AS(spread.booster.backward(sum(net(ones({2, 4}))), opt),
                       doctest::Contains("want delay_unscale for every loss but the last"), Error);
  CHECK_NOTHROW(spread.booster.backward(sum(net(ones({2, 4}))), opt, {.delay_unscale = true}));
}
TEST_CASE("losses with scalers of their own train alike on two ranks") {
  CHECK(failures(Ranks("rank: two losses", 2).wait(120)) == "");
}
