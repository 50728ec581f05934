// Layer-wise learning-rate decay: timm's scales for a ViT, and other models by their links.
#include "booster/booster.h"
#include "tests/capture_part.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace booster;

namespace {

// Returns rate and weight decay of each parameter.
std::map<std::string, std::pair<double, double>> options_by_name(const Optimizer& optimizer,
                                                                 const Model& model,
                                                                 LayerDecayOptions options) {
  std::map<std::string, std::pair<double, double>> found;
  int group = 0;
  for (const ParameterGroup& made : layer_decay_groups(model, options)) {
    const auto& now = optimizer.options(group++);
    for (const auto& [name, tensor] : made.parameters)
      found[name] = {now.at("lr"), now.at("weight_decay")};
  }
  return found;
}

}  // namespace

TEST_CASE("a ViT's parameters learn and decay by their layers as in timm") {
  std::ifstream file(test::golden_folder() + "/optim/layer_decay.json");
  for (const auto& golden : nlohmann::json::parse(file)) {
    const Config config = Config::from_text(
        "{}", "c",
        {"model.img_size=32", "model.num_classes=5", "model.depth=" + golden["depth"].dump(),
         "optimizer.name=adamw", "optimizer.lr=0.5", "optimizer.weight_decay=0.05",
         "optimizer.layer_decay=" + golden["layer_decay"].dump()});
    const Model model = make_model(config);
    const auto found =
        options_by_name(make_optimizer(config, model), model,
                        {.lr = 0.5, .weight_decay = 0.05, .layer_decay = golden["layer_decay"]});
    REQUIRE(found.size() == golden["parameters"].size());
    for (const auto& [name, want] : golden["parameters"].items()) {
      CAPTURE_PART(name);
      CHECK(found.at(name).first == doctest::Approx(0.5 * want[0].get<double>()).epsilon(1e-9));
      CHECK(found.at(name).second == want[1].get<double>());
    }
  }
}

TEST_CASE("a schedule keeps the layers' rates apart") {
  const Model model = Sequential{Linear(2, 2), Linear(2, 2), Linear(2, 2)};
  Optimizer optimizer = SGD(layer_decay_groups(model, {.lr = 1, .layer_decay = 0.5}), {});
  LRScheduler schedule = CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 0, .total_steps = 10});
  for (int step = 0; step < 5; ++step) schedule.step();
  for (int group = 0; group < optimizer.group_count(); ++group)
    CHECK(optimizer.lr(group) ==
          doctest::Approx(optimizer.lr(optimizer.group_count() - 1) *
                          std::pow(0.5, (optimizer.group_count() - 1 - group) / 2)));
}

TEST_CASE("layer_decay has a floor, and refuses what it cannot do") {
  const Model model = Sequential{Linear(2, 2), Linear(2, 2), Linear(2, 2)};
  const auto groups = layer_decay_groups(model, {.lr = 1, .layer_decay = 0.1, .min_scale = 0.05});
  CHECK(groups.front().options.numbers().at("lr") == 0.05);
  CHECK(error_of([&] { layer_decay_groups(model, {.layer_decay = 0}); }) ==
        "layer_decay: out of range; got 0, want more than 0 and at most 1");
  const Model single = Linear(2, 2);
  for (const ParameterGroup& group : layer_decay_groups(single, {.lr = 1, .layer_decay = 0.1}))
    CHECK(group.options.numbers().at("lr") == 1);
}
