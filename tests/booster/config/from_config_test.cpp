#include "booster/config/config.h"

#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/registry.h"
#include "booster/config/tables/optimizers.h"
#include "core/autograd/functions.h"
#include "core/nn/layers.h"
#include "core/optim/algorithms/registry.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

// Returns a config in which every option of a choice has its default.
Config config(const std::string& section, const std::string& name) {
  return Config::from_text("{}", "c", {section + ".name=" + name});
}

}  // namespace

TEST_CASE("every optimizer and schedule that a config may name can be made") {
  const Model model = Linear(2, 3);
  for (const auto& entry : optimizer_entries())
    CHECK(make_optimizer(config("optimizer", entry.name), model).name() == entry.name);
  for (const auto& entry : lr_scheduler_entries()) {
    auto optimizer = make_optimizer(config("optimizer", "adamw"), model);
    auto scheduler = make_lr_scheduler(config("lr_scheduler", entry.name), optimizer, 10);
    CHECK(scheduler.name() == entry.name);
    for (int i = 0; i < 10; ++i) scheduler.step();
    CHECK(std::isfinite(scheduler.lr()));
  }
}

TEST_CASE("a config's numbers reach the objects") {
  const Config c = Config::from_text(
      R"({"optimizer": {"name": "adamw", "lr": 0.5, "betas": [0.8, 0.9]},
          "lr_scheduler": {"name": "linear_warmup", "warmup_steps": 4},
          "model": {"num_classes": 5}})");
  const Model model = Linear(2, 3);
  const Optimizer optimizer = make_optimizer(c, model);
  CHECK(optimizer.options().at("beta1") == 0.8);
  CHECK(make_lr_scheduler(c, optimizer, 10).lr() == doctest::Approx(0.1));
  CHECK(make_model(c).state_dict().back().tensor.shape() == Shape{5});
}

TEST_CASE("Muon in a config moves the matrices, and AdamW all other parameters") {
  const Model model = Linear(2, 3);
  const Optimizer optimizer = make_optimizer(config("optimizer", "muon"), model);
  REQUIRE(optimizer.group_count() == 2);
  CHECK(optimizer.options(0).at("adamw") == 0);
  CHECK(optimizer.options(1).at("adamw") == 1);
  const auto groups = optimizer.state_dict().groups;
  CHECK(groups[0].parameters == std::vector<std::string>{"weight"});
  CHECK(groups[1].parameters == std::vector<std::string>{"bias"});
}

TEST_CASE("timm's cosine in epochs lasts as many as the training has") {
  const Config c = Config::from_text(
      R"({"optimizer": {"name": "sgd", "lr": 0.5},
          "lr_scheduler": {"name": "timm_cosine", "steps_per_epoch": 4, "lr_min": 0.1}})");
  const Model model = Linear(2, 3);
  const Optimizer optimizer = make_optimizer(c, model);
  auto scheduler = make_lr_scheduler(c, optimizer, 8);  // two epochs
  for (int t = 0; t < 8; ++t, scheduler.step())
    CHECK(scheduler.lr() == doctest::Approx(t < 4 ? 0.5 : 0.3));
  CHECK(scheduler.lr() == doctest::Approx(0.1));
}

TEST_CASE("an optimizer's default in a config is the one in C++") {
  const Model model = Linear(2, 3, {.bias = false});  // muon alone takes matrices only
  for (const auto& entry : optimizer_entries()) {
    const Optimizer from_config = make_optimizer(config("optimizer", entry.name), model);
    const Optimizer from_code = make_optimizer(entry.name, model.parameters(), {});
    CHECK_MESSAGE(from_config.options() == from_code.options(), entry.name);
  }
}

TEST_CASE("every model that a config may name can be made, with its own options") {
  const Config mlp = Config::from_text(
      R"({"model": {"name": "mlp", "sizes": [12, 8, 5], "flatten": true, "bias": false}})");
  CHECK(make_model(mlp)(zeros({7, 3, 2, 2})).shape() == Shape{7, 5});
  const Config resnet =
      Config::from_text(R"({"model": {"name": "resnet20", "num_classes": 4, "in_chans": 1}})");
  CHECK(make_model(resnet)(zeros({2, 1, 8, 8})).shape() == Shape{2, 4});
  const Config vit = Config::from_text(
      R"({"model": {"name": "vit_small_patch32_224", "num_classes": 3, "img_size": 64}})");
  CHECK(make_model(vit)(zeros({1, 3, 64, 64})).shape() == Shape{1, 3});
  for (const char* name : {"vit_tiny_patch16_224", "vit_base_patch16_224", "vit_large_patch16_224"})
    CHECK_NOTHROW(config("model", name));
  CHECK_THROWS_AS(make_model(config("model", "mlp")), Error);
  CHECK_THROWS_WITH_AS(config("model", "resnet2"), doctest::Contains("did you mean resnet20?"),
                       Error);
  CHECK_THROWS_WITH_AS(Config::from_text(R"({"model": {"name": "mlp", "img_size": 5}})"),
                       doctest::Contains("unknown key of mlp"), Error);
}
