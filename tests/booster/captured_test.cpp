// Captured and replayed work of boosted objects, between steps that are not captured.
#include "booster/booster.h"
#include "core/tensor/capture/captured_work.h"
#include "mixed_precision/scaling/loss_scaler.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

Model some_model(Device device) {
  manual_seed(8);
  const Model model = models::mlp({16, 32, 16});
  model->to(device);
  return model;
}

struct CapturedTraining {
  explicit CapturedTraining(const StrategyLevel& strategy)
      : booster({.mixed_precision = strategy.make}), pair(boosted()) {}

  BoostedPair boosted() {
    const Model model = some_model(gpu);
    Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.05});
    auto [net, opt] = booster.boost(model, optimizer);
    return {net, opt};
  }
  void step() {
    pair.optimizer.zero_grad();
    const Tensor loss = cross_entropy(cast(pair.model(x), DType::f32), target);
    booster.backward(loss, pair.optimizer);
    pair.optimizer.step();
  }

  Tensor x = normal({16, 16}).to(gpu), target = randint(0, 16, {16}).to(gpu);
  Booster booster;
  BoostedPair pair;
};

std::string refusal_of(const std::function<void()>& call) {
  return error_of([&] {
    capture(gpu, [&] {
      call();
      return std::vector<Tensor>{};
    });
  });
}

}  // namespace

TEST_CASE("GPU: a boosted model's forward is replayed with the weights of the last step" *
          on_gpu()) {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    CapturedTraining training(strategy);
    for (int i = 0; i < 2; ++i) training.step();
    const auto work = [&] {
      const NoGradGuard guard;
      return std::vector<Tensor>{training.pair.model(training.x)};
    };
    work();
    if (strategy.computed == Digits::fp8) {
      CHECK(contains(error_of([&] { capture(gpu, work); }), "a linear layer in fp8: cannot"));
      continue;
    }
    CapturedWork captured = capture(gpu, work);
    for (int step = 0; step < 3; ++step) {
      training.step();
      training.x.copy_(normal({16, 16}));
      captured.replay();
      const std::vector<double> replayed = captured.results()[0].to_vector<double>();
      CHECK(replayed == work()[0].to_vector<double>());
    }
  }
}

TEST_CASE("GPU: calls that the host keeps count of are not captured, and training goes on" *
          on_gpu()) {
  for (const StrategyLevel& strategy : strategy_levels()) {
    CAPTURE(std::string(strategy.name));
    CapturedTraining training(strategy), plain(strategy);
    for (CapturedTraining* each : {&training, &plain}) {
      each->x.fill_(0.5);
      each->target.fill_(1);
      each->step();
    }
    BoostedOptimizer& optimizer = training.pair.optimizer;
    const auto loss_of = [](const CapturedTraining& one) {
      return cross_entropy(cast(one.pair.model(one.x), DType::f32), one.target);
    };
    const Tensor loss = loss_of(training);
    loss_of(plain);  // fp8 records its history
    const auto check_refused = [&](const char* name, const std::function<void()>& call) {
      CHECK(contains(refusal_of(call), std::string(name) + ": cannot be recorded"));
    };
    check_refused("booster.backward", [&] { training.booster.backward(loss, optimizer); });
    check_refused("optimizer.step", [&] { optimizer.step(); });
    check_refused("optimizer.zero_grad", [&] { optimizer.zero_grad(); });
    check_refused("optimizer.clip_grad_by_norm", [&] { optimizer.clip_grad_by_norm(1); });
    check_refused("optimizer.clip_grad_by_value", [&] { optimizer.clip_grad_by_value(1); });
    for (CapturedTraining* each : {&training, &plain}) each->step();
    const auto expected = plain.pair.model.unwrap().parameters();
    size_t i = 0;
    for (const auto& parameter : training.pair.model.unwrap().parameters())
      CHECK(parameter.tensor.to_vector<double>() == expected[i++].tensor.to_vector<double>());
  }
}

TEST_CASE("GPU: a scaled loss's backward is replayed with the scale of the moment" * on_gpu()) {
  struct Scaled {
    Model model = some_model(gpu);
    Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
    GradScaler scaler{{.init_scale = 256, .growth_interval = 2}};
    Tensor x = zeros({16, 16}, {.device = gpu}), target = zeros({16}, {DType::i64, gpu});

    std::vector<Tensor> pass() {
      model.zero_grad();
      const Tensor loss = cross_entropy(model(x), target);
      scaler.scale(loss).backward();
      return {loss};
    }
    void step() {
      scaler.unscale_(optimizer);
      optimizer.clip_grad_by_norm(0.3);
      scaler.step(optimizer);
      scaler.update();
    }
  };
  manual_seed(3);
  Scaled plain, replayed;
  for (Scaled* each : {&plain, &replayed}) {
    each->pass();
    each->step();
  }
  CapturedWork captured = capture(gpu, [&] { return replayed.pass(); });
  for (int step = 0; step < 7; ++step) {
    const Tensor x = normal({16, 16});
    for (Scaled* each : {&plain, &replayed}) {
      each->x.copy_(x);
      // Overflows, so that the step is skipped and the scale backs off.
      if (step == 4) each->x.fill_(3e38);
    }
    plain.pass();
    captured.replay();
    for (Scaled* each : {&plain, &replayed}) each->step();
    CHECK(replayed.scaler.get_scale() == plain.scaler.get_scale());
    const auto expected = plain.model.parameters();
    size_t i = 0;
    for (const auto& parameter : replayed.model.parameters())
      CHECK(parameter.tensor.to_vector<float>() == expected[i++].tensor.to_vector<float>());
  }
  CHECK(plain.scaler.get_scale() != 256);
  CHECK(contains(refusal_of([&] { replayed.scaler.update(); }), "GradScaler: cannot be recorded"));
  CHECK(contains(refusal_of([&] { replayed.optimizer.clip_grad_by_norm(1); }),
                 "optimizer.clip_grad_by_norm: cannot be recorded"));
}
