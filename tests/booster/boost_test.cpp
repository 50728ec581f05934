// Checks which objects boost() accepts, and which calls the unboosted handles still allow. Those
// must not use scaled or local gradients as true ones.
#include "booster/booster.h"
#include "core/nn/models/resnet.h"
#include "tests/parallel/ranks.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>

#include <functional>

using namespace booster;
using namespace booster::testing;
using doctest::Contains;

namespace {

constexpr int64_t features = 16;

Model small_model() {
  manual_seed(3);
  return Sequential{Linear(features, 32), GELU(), Linear(32, features)};
}

Optimizer sgd(const Model& model) { return SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9}); }

Tensor batch_inputs(int seed) {
  Generator generator(static_cast<uint64_t>(seed));
  return uniform({4, features}, -1, 1, {}, generator);
}

std::vector<double> values(const Model& model) {
  std::vector<double> all;
  for (const auto& [name, tensor] : model.state_dict()) {
    const auto numbers = tensor.to_vector<double>();
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

// Every call on unboosted handles that would use gradients unchanged, or discard them.
struct Misuse {
  const char* says;
  std::function<void(const Model&, Optimizer)> call;
};
const std::vector<Misuse> misuses = {
    {"want step() of", [](const Model&, Optimizer o) { o.step(); }},
    {"want zero_grad() of", [](const Model&, Optimizer o) { o.zero_grad(); }},
    {"want zero_grad() of", [](const Model& m, Optimizer) { m.zero_grad(); }},
    {"want clip_grad_by_norm() of", [](const Model&, Optimizer o) { o.clip_grad_by_norm(1); }},
    {"want clip_grad_by_value() of", [](const Model&, Optimizer o) { o.clip_grad_by_value(1); }},
    {"want clip_grad_by_norm() of",
     [](const Model& m, Optimizer) { clip_grad_norm_(m.parameters(), 1); }},
    {"want clip_grad_by_value() of",
     [](const Model& m, Optimizer) { clip_grad_value_(m.parameters(), 1); }},
    {"want step() of", [](const Model& m, Optimizer) { SGD(m.parameters(), {.lr = 1}).step(); }}};

// Trains a few steps; makes all mistakes before each of its calls.
std::vector<double> train(const StrategyLevel& strategy, const std::vector<Misuse>& mistakes) {
  Booster booster({.mixed_precision = strategy.make});
  Model model = small_model();
  Optimizer optimizer = sgd(model);
  auto [net, opt] = booster.boost(model, optimizer);
  const auto go_wrong = [&] {
    for (const Misuse& mistake : mistakes)
      CHECK_THROWS_WITH_AS(mistake.call(model, optimizer), Contains(mistake.says), Error);
  };
  for (int step = 0; step < 4; ++step) {
    if (step != 2) opt.zero_grad();
    go_wrong();
    const Tensor loss = mean(cast(net(batch_inputs(step)), DType::f32));
    go_wrong();
    booster.backward(loss, opt);
    go_wrong();
    if (step == 1) opt.clip_grad_by_norm(0.01);
    if (step == 3) opt.clip_grad_by_value(0.001);
    go_wrong();
    opt.step();
    optimizer.set_lr(0.05 * (step + 1));  // schedulers hold the unboosted handle
  }
  return values(model);
}

}  // namespace

TEST_CASE("plugins, strategies and boosters are made of empty braces") {
  CHECK(std::string(TorchDDPPlugin({})()->name()) == "torch_ddp");
  CHECK(std::string(LowLevelZeroPlugin({})()->name()) == "low_level_zero");
  CHECK(std::string(FsdpPlugin({})()->name()) == "fsdp");
  CHECK(std::string(HybridParallelPlugin({})()->name()) == "hybrid_parallel");
  CHECK(std::string(SinglePlugin({})()->name()) == "single");
  CHECK(std::string(TorchDDPPlugin({.bucket_cap_mb = 3})()->name()) == "torch_ddp");
  CHECK_NOTHROW(Booster({}));
  CHECK_NOTHROW(FP16TorchMixedPrecision({}));
  CHECK_NOTHROW(FP16ApexMixedPrecision({}));
  CHECK_NOTHROW(FP16NaiveMixedPrecision({}));
  CHECK_NOTHROW(FP16PaddleMixedPrecision({}));
  CHECK_NOTHROW(BF16MixedPrecision({}));
  CHECK_NOTHROW(FP8MixedPrecision({}));
  CHECK_NOTHROW(GradScaler({}));
  CHECK_NOTHROW(models::ResNet20({}));
}

TEST_CASE("unboosted handles cannot use or forget gradients of a boosted training") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(strategy.name);
    CHECK(train(strategy, misuses) == train(strategy, {}));
  }
}

TEST_CASE("the errors name the strategy, the plugin and the boosted call") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = small_model();
  Optimizer optimizer = sgd(model);
  auto boosted = booster.boost(model, optimizer);
  CHECK_THROWS_WITH_AS(
      optimizer.step(),
      "optimizer.step: the gradients belong to a boosted training (fp16 on single) and may be "
      "scaled or local to this rank; want step() of the boosted optimizer",
      Error);
}

TEST_CASE("a model or optimizer is boosted once, and again when its boosted handles are gone") {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(strategy.name);
    Booster booster({.mixed_precision = strategy.make});
    Model model = small_model(), other = small_model();
    Optimizer optimizer = sgd(model);
    {
      auto [net, opt] = booster.boost(model, optimizer);
      const auto before = values(model);
      const char* again = "is already boosted (";
      CHECK_THROWS_WITH_AS(booster.boost(model, optimizer), Contains(again), Error);
      CHECK_THROWS_WITH_AS(booster.boost(model, sgd(model)), Contains(again), Error);
      CHECK_THROWS_WITH_AS(booster.boost(other, optimizer), Contains(again), Error);
      CHECK_THROWS_WITH_AS(booster.boost({other, model}, {sgd(other)}), Contains(again), Error);
      CHECK(values(model) == before);
      booster.backward(mean(cast(net(batch_inputs(1)), DType::f32)), opt);
    }
    for (const auto& [name, tensor] : model.parameters()) CHECK_FALSE(tensor.grad().defined());
    CHECK_NOTHROW(optimizer.zero_grad());
    if (is_16_bit(model.parameters()[0].tensor.dtype()) && std::string(strategy.name) != "fp8")
      continue;  // Apex needs f32 models; other strategies need not accept 16-bit ones
    auto [net, opt] = booster.boost(model, optimizer);
    booster.backward(mean(cast(net(batch_inputs(1)), DType::f32)), opt);
    CHECK_FALSE(opt.step().skipped());
  }
}

TEST_CASE("a frozen part may serve several boosted trainings") {
  Booster booster;
  auto teacher = std::make_shared<Linear>(features, features);
  teacher->freeze();
  Model first = Sequential({Model(teacher), Linear(features, 4)}),
        second = Sequential({Model(teacher), Linear(features, 4)});
  const auto trained = [](const Model& model) {
    Parameters parameters;
    for (const auto& parameter : model.parameters())
      if (parameter.tensor.requires_grad()) parameters.push_back(parameter);
    return SGD(parameters, {.lr = 0.1});
  };
  auto one = booster.boost(first, trained(first));
  CHECK_NOTHROW(booster.boost(second, trained(second)));
}

TEST_CASE("an optimizer of another model, or of a layer that was replaced, is refused") {
  Booster booster({.mixed_precision = "bf16"});
  Model model = small_model(), other = small_model();
  const auto before = values(model);
  CHECK_THROWS_WITH_AS(booster.boost(model, sgd(other)),
                       Contains("parameter 0.weight differs from the"), Error);
  const auto unnamed = [](const Model& of) {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : of.parameters()) tensors.push_back(tensor);
    return SGD(tensors, {.lr = 0.1});
  };
  CHECK_THROWS_WITH_AS(booster.boost(model, unnamed(other)),
                       Contains("none of its 4 parameters belongs to the model"), Error);
  Parameters mixed = model.parameters();
  mixed.back().tensor = other.parameters().back().tensor;
  CHECK_THROWS_WITH_AS(booster.boost(model, SGD(mixed, {.lr = 0.1})),
                       Contains("its parameter 2.bias differs from the model's"), Error);
  CHECK_THROWS_WITH_AS(booster.boost({model}, {sgd(model), sgd(model)}),
                       Contains("two optimizers have parameter 0.weight"), Error);
  CHECK(values(model) == before);
  CHECK_NOTHROW(booster.boost(model, unnamed(model)));
}

TEST_CASE("an optimizer may hold parameters of the loss besides") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = small_model();
  Tensor factor = full({1}, 2.0);
  factor.requires_grad_();
  Parameters all = model.parameters();
  all.push_back({"factor", factor});
  auto [net, opt] = booster.boost(model, SGD(all, {.lr = 0.1}));
  booster.backward(mean(cast(net(batch_inputs(1)), DType::f32) * factor), opt);
  opt.step();
  CHECK(factor.item() != 2);
}

TEST_CASE("the unboosted model of a 16-bit strategy says which handle is to be called") {
  int told = 0;
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(strategy.name);
    Booster booster({.mixed_precision = strategy.make});
    Model model = small_model();
    auto [net, opt] = booster.boost(model, sgd(model));
    if (model.parameters()[0].tensor.dtype() == DType::f32) continue;
    ++told;
    CHECK_THROWS_WITH_AS(model(batch_inputs(1)),
                         Contains("on single); want a call of boosted.model, not of the model"),
                         Error);
    CHECK_NOTHROW(net(batch_inputs(1)));
  }
  CHECK(told >= 6);
}

TEST_CASE("a scaler of one's own beside a Booster is told of booster.backward") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = small_model();
  Optimizer optimizer = sgd(model);
  auto [net, opt] = booster.boost(model, optimizer);
  booster.backward(mean(cast(net(batch_inputs(1)), DType::f32)), opt);
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.step(optimizer), Contains("booster.backward(loss, optimizer)"),
                       Error);
}

TEST_CASE("rank: boosts again" * doctest::skip()) {
  for (const char* plugin : {"torch_ddp", "low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    const Model model = small_model();
    const Optimizer optimizer = sgd(model);
    const auto with = [&](const std::string& options) {
      return Booster::from_config(
          Config::from_text("{\"booster\": {\"plugin\": \"" + std::string(plugin) +
                                "\", \"mixed_precision\": {" + options + "}}}",
                            "test"));
    };
    CHECK_THROWS_WITH_AS(with(R"("name": "fp8", "exclude": ["none"])").boost(model, optimizer),
                         Contains("fp8: exclude: no layer has this name"), Error);
    CHECK_THROWS_WITH_AS(
        with(R"("name": "fp16_paddle", "level": "O2", "excluded_layers": ["none"])")
            .boost(model, optimizer),
        Contains("fp16_paddle: excluded_layers"), Error);
    CHECK(model(batch_inputs(1)).shape() == Shape{4, features});
    Booster booster = with(R"("name": "fp8")");
    auto [net, opt] = booster.boost(model, optimizer);
    booster.backward(mean(cast(net(batch_inputs(1)), DType::f32)), opt);
    opt.step();
  }
}
TEST_CASE("a boost that is refused leaves the model as it was") {
  CHECK(failures(Ranks("rank: boosts again", 2).wait()) == "");
}

TEST_CASE("rank: other arguments" * doctest::skip()) {
  const int rank = launch_from_env().rank;
  for (const char* plugin : {"torch_ddp", "low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    Booster booster({.plugin = plugin});
    const Model model = small_model();
    CHECK_THROWS_WITH_AS(booster.boost(model, SGD(model.parameters(), {.lr = 0.1 * (1 + rank)})),
                         Contains("rank 1 has a different optimizer, or other options"), Error);
    if (rank == 1) model.module().parameters()[0].tensor.requires_grad_(false);
    CHECK_THROWS_WITH_AS(booster.boost(model, sgd(model)), Contains("a different model"), Error);
    Booster other({.plugin = plugin, .mixed_precision = rank == 0 ? "fp32" : "bf16"});
    const Model second = small_model();
    CHECK_THROWS_WITH_AS(other.boost(second, sgd(second)), Contains("a different strategy"), Error);
  }
}
TEST_CASE("ranks that are given other models, optimizers or strategies are told which") {
  CHECK(failures(Ranks("rank: other arguments", 2).wait()) == "");
}

TEST_CASE("rank: boosts what was spread" * doctest::skip()) {
  for (const char* plugin : {"low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    const Model model = small_model();
    const Optimizer optimizer = sgd(model);
    Booster booster({.plugin = plugin});
    booster.boost(model, optimizer);
    CHECK_THROWS_WITH_AS(booster.boost(model, optimizer), Contains("still spread over ranks"),
                         Error);
  }
}
TEST_CASE("what a plugin spread over ranks is not boosted again") {
  CHECK(failures(Ranks("rank: boosts what was spread", 2).wait()) == "");
}

TEST_CASE("rank: alone by mistake" * doctest::skip()) {
  CHECK_THROWS_WITH_AS(
      Booster(),
      "single: booster run (or torchrun) started 2 ranks, and each would train its own model; want "
      "torch_ddp, one process, or on_every_rank = true if this is intended",
      Error);
  CHECK_NOTHROW(Booster({.plugin = SinglePlugin({.on_every_rank = true})}));
  const Config config = Config::from_text(
      R"({"booster": {"plugin": {"name": "single", "on_every_rank": true}}})", "test");
  CHECK_NOTHROW(Booster::from_config(config));
}
TEST_CASE("single on two ranks is refused, and torch_ddp named") {
  CHECK(failures(Ranks("rank: alone by mistake", 2).wait()) == "");
}

TEST_CASE("a boosted step with a closure is zero_grad, forward, backward and step, with a scale") {
  const auto trained = [](bool by_closure) {
    manual_seed(5);
    const Model model = Sequential{Linear(4, 8), Tanh(), Linear(8, 3)};
    Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = 1024})});
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9}));
    std::vector<double> told;
    for (int i = 0; i < 4; ++i) {
      const auto part = [&, &net = net, &opt = opt](double weight) {
        const Tensor loss = mean(square(net(full({2, 4}, 0.1 * i + weight)))) * weight;
        booster.backward(loss, opt);
        return loss;
      };
      const auto closure = [&, &opt = opt] {  // two losses accumulate
        opt.zero_grad();
        return part(0.5) + part(0.25).detach();
      };
      if (by_closure) {
        const NoGradGuard off;
        const auto [loss, report] = opt.step(closure);
        told.push_back(loss.item());
        told.push_back(report.loss_scale());
      } else {
        told.push_back(closure().item());
        told.push_back(opt.step().loss_scale());
      }
    }
    for (const auto& [name, tensor] : model.parameters())
      for (const double x : tensor.to_vector<double>()) told.push_back(x);
    return told;
  };
  CHECK(trained(true) == trained(false));
}
