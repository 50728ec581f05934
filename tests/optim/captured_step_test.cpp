// Captured and replayed optimizer steps.
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "core/tensor/capture/captured_work.h"
#include "core/tensor/random/random.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

struct Trained {
  explicit Trained(const std::string& rule)
      : values(some_parameters()), optimizer(make_optimizer(rule, ParameterGroups(values), {})) {
    optimizer.set_lr(0.0625);
  }
  static std::vector<Tensor> some_parameters() {
    std::vector<Tensor> values;
    for (const Shape& shape : {Shape{3, 5}, Shape{7}, Shape{600}}) {
      values.push_back(normal(shape).to(gpu).requires_grad_());
      values.back().set_grad(zeros(shape, {.device = gpu}));
    }
    return values;
  }
  void give(const std::vector<Tensor>& grads) {
    for (size_t i = 0; i < values.size(); ++i) values[i].grad().copy_(grads[i]);
  }
  std::vector<std::vector<float>> numbers() const {
    std::vector<std::vector<float>> all;
    for (const Tensor& each : values) all.push_back(each.to_vector<float>());
    return all;
  }
  std::vector<Tensor> values;
  Optimizer optimizer;
};

}  // namespace

TEST_CASE("GPU: drawn replays of an optimizer's step, with plain ones between, are plain steps" *
          on_gpu()) {
  std::mt19937 draw(9);
  for (const char* rule : {"sgd", "adam", "adamw", "lamb", "rmsprop"}) {
    CAPTURE(std::string(rule));
    manual_seed(4);
    Trained plain(rule);
    manual_seed(4);
    Trained replayed(rule);
    const auto give = [&] {
      std::vector<Tensor> grads;
      for (const Tensor& value : plain.values) grads.push_back(normal(value.shape()));
      plain.give(grads);
      replayed.give(grads);
    };
    give();
    plain.optimizer.step();
    replayed.optimizer.step();
    CapturedWork captured = capture(gpu, [&] {
      replayed.optimizer.step();
      return std::vector<Tensor>{};
    });
    CHECK(replayed.numbers() == plain.numbers());
    for (int step = 0; step < 8; ++step) {
      give();
      if (draw() % 3 == 0) {
        const double lr = 0.01 * static_cast<double>(1 + draw() % 9);
        plain.optimizer.set_lr(lr);
        replayed.optimizer.set_lr(lr);
      }
      const uint32_t version = replayed.values[0].version();
      plain.optimizer.step();
      if (draw() % 3 > 0) captured.replay();
      else replayed.optimizer.step();
      CHECK(replayed.values[0].version() > version);
      CHECK(replayed.numbers() == plain.numbers());
    }
  }
}

TEST_CASE("GPU: a step whose host part would be missing in a replay is not captured" * on_gpu()) {
  const auto said = [](Optimizer& optimizer) {
    return error_of([&] {
      capture(gpu, [&] {
        optimizer.step();
        return std::vector<Tensor>{};
      });
    });
  };
  Trained first("adamw"), clipped("adamw");
  CHECK(contains(said(first.optimizer), "want a plain step before"));
  clipped.optimizer.step();
  clipped.optimizer.clip_grad_by_norm(1);
  CHECK(contains(said(clipped.optimizer), "gradients were clipped"));
  clipped.optimizer.step();
  CHECK(clipped.numbers()[0].size() == 15);
  const Tensor half = ones({4}, {DType::bf16, gpu}).requires_grad_();
  half.set_grad(ones({4}, {DType::bf16, gpu}));
  Optimizer optimizer = make_optimizer("adamw", ParameterGroups({half}), {});
  optimizer.set_master("0", ones({4}, {.device = gpu}));
  optimizer.step();
  CHECK(contains(said(optimizer), "masters are newer"));
}
