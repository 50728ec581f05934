#include "booster/config/from_config.h"
#include "core/nn/layers.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

// A config in which every option of a choice is set to its default.
Config config(const std::string& section, const std::string& name) {
  return Config::from_text("{}", "c", {section + ".name=" + name});
}

}  // namespace

TEST_CASE("every optimizer and schedule that a config may name can be made") {
  const Model model = Linear(2, 3);
  for (const char* name : {"sgd", "adam", "adamw", "lamb"}) {
    CHECK(make_optimizer(config("optimizer", name), model).name() == std::string(name));
  }
  for (const char* name : {"constant", "linear_warmup", "cosine", "cosine_warmup", "polynomial",
                           "step", "multi_step", "exponential", "one_cycle"}) {
    auto optimizer = make_optimizer(config("optimizer", "adamw"), model);
    auto scheduler = make_lr_scheduler(config("lr_scheduler", name), optimizer, 10);
    CHECK(scheduler.name() == std::string(name));
    for (int i = 0; i < 10; ++i) scheduler.step();
    CHECK(std::isfinite(scheduler.lr()));
  }
}

TEST_CASE("a config's numbers reach the objects") {
  const Config c = Config::from_text(
      R"({"optimizer": {"name": "adamw", "lr": 0.5, "betas": [0.8, 0.9]},
          "data": {"batch_size": 7, "on_bad_image": "skip"},
          "lr_scheduler": {"name": "linear_warmup", "warmup_steps": 4},
          "model": {"num_classes": 5}, "train": {"seed": 9}})");
  const Model model = Linear(2, 3);
  const Optimizer optimizer = make_optimizer(c, model);
  CHECK(optimizer.options().at("beta1") == 0.8);
  CHECK(make_lr_scheduler(c, optimizer, 10).lr() == doctest::Approx(0.1));
  const DataLoaderOptions loader = make_loader_options(c);
  CHECK(loader.batch_size == 7);
  CHECK(loader.seed == 9);
  CHECK(loader.on_bad_image == BadImagePolicy::skip);
  CHECK(make_model(c).state_dict().back().tensor.shape() == Shape{5});
}
