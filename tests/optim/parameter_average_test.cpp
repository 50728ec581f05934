// Moving averages of parameters: values by the formula, masters, skipped steps, bitwise restore.
#include "core/optim/optimizers.h"
#include "tests/optim/golden.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <optional>

using namespace booster;

namespace {

struct StepSkip {
  bool skips;
  bool skipped() const { return skips; }
};

Tensor parameter(double value, DType dtype = DType::f32) {
  return full({2}, value, {.dtype = dtype}).requires_grad_();
}

}  // namespace

TEST_CASE("an average moves towards the parameter by 1 - decay") {
  Tensor w = parameter(1);
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 0.1});
  ParameterAverage average(optimizer, {.decay = 0.999});
  w.detach().fill_(0);
  for (int step = 0; step < 100; ++step) average.update();
  // 0.999 from 1 towards 0 in 100 steps is 0.999^100; bf16 would stay at 1.
  CHECK(average.state_dict().at("w").to_vector<float>()[0] ==
        doctest::Approx(std::pow(0.999, 100)).epsilon(1e-6));
}

TEST_CASE("an average follows the f32 master of a 16-bit parameter") {
  Tensor w = parameter(1, DType::bf16);
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 1e-3});
  optimizer.set_master("w", ones({2}));
  ParameterAverage average(optimizer, {.decay = 0.5});
  w.set_grad(ones({2}, {.dtype = DType::bf16}));
  optimizer.step();  // 0.999, which bf16 rounds to 1
  average.update();
  const auto values = average.state_dict().at("w").to_vector<float>();
  CHECK(values[0] == doctest::Approx(0.9995).epsilon(1e-6));
}

TEST_CASE("an average stays where a step was skipped") {
  Tensor w = parameter(1);
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 0.1});
  ParameterAverage average(optimizer, {.decay = 0.5});
  w.detach().fill_(0);
  average.update(StepSkip{true});
  CHECK(average.state_dict().at("w").to_vector<float>()[0] == 1);
  average.update(StepSkip{false});
  CHECK(average.state_dict().at("w").to_vector<float>()[0] == 0.5);
}

TEST_CASE("a model evaluated with averages trains on as if nothing had happened") {
  for (const bool evaluates : {false, true}) {
    static std::vector<float> want;
    Tensor w = parameter(1, DType::bf16);
    Optimizer optimizer = AdamW(Parameters{{"w", w}}, {.lr = 1e-3});
    optimizer.set_master("w", full({2}, 1.0001));
    ParameterAverage average(optimizer, {.decay = 0.9});
    for (int step = 0; step < 5; ++step) {
      w.set_grad(full({2}, 0.5, {.dtype = DType::bf16}));
      optimizer.step();
      average.update();
      if (!evaluates) continue;
      const AveragedWeights weights(average);
      const float mean = average.state_dict().at("w").to_vector<float>()[0];
      CHECK(w.to_vector<float>()[0] == doctest::Approx(mean).epsilon(0.004));
    }
    const auto got = optimizer.master("w").to_vector<float>();
    if (!evaluates) want = got;
    CHECK(std::bit_cast<int32_t>(got[0]) == std::bit_cast<int32_t>(want[0]));
  }
}

TEST_CASE("an average takes a state whole or not at all") {
  Tensor w = parameter(1), v = parameter(2);
  Optimizer optimizer = SGD(Parameters{{"v", v}, {"w", w}}, {.lr = 0.1});
  ParameterAverage average(optimizer, {.decay = 0.5});
  CHECK_THROWS_WITH_AS(average.load_state_dict({{"v", zeros({2})}}),
                       doctest::Contains("the state lacks w"), Error);
  CHECK_THROWS_WITH_AS(average.load_state_dict({{"v", zeros({2})}, {"w", zeros({3})}}),
                       doctest::Contains("w has the wrong shape; got (3,), want (2,)"), Error);
  CHECK(average.state_dict().at("v").to_vector<float>()[0] == 2);
  average.load_state_dict({{"v", zeros({2})}, {"w", zeros({2})}});
  CHECK(average.state_dict().at("v").to_vector<float>()[0] == 0);
  CHECK_THROWS_AS(ParameterAverage(optimizer, {.decay = 1.5}), Error);
}

TEST_CASE("averages are those of timm's ModelEmaV3, step by step, with its warm-up or without") {
  for (const auto& golden : test::golden("averages")) {
    CAPTURE(golden["options"].dump());
    const auto& options = golden["options"];
    Tensor w = from_vector(golden["values"][0].get<std::vector<float>>(), {3}).requires_grad_();
    Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 0.1});
    ParameterAverage average(
        optimizer, {.decay = options["decay"],
                    .warmup = options.value("use_warmup", false),
                    .warmup_gamma = options.value("warmup_gamma", 1.0),
                    .warmup_power = options.value("warmup_power", 2.0 / 3),
                    .min_decay = options.value("min_decay", 0.0),
                    .update_after_step = options.value("update_after_step", int64_t{0})});
    for (size_t i = 1; i < golden["values"].size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      w.detach().copy_(from_vector(golden["values"][i].get<std::vector<float>>(), {3}));
      const auto given = golden["steps"].get<bool>() ? std::optional(step) : std::nullopt;
      average.update(given);
      CHECK(average.decay(given) == doctest::Approx(golden["decays"][i - 1].get<double>()));
      test::check_close(average.state_dict().at("w").to_vector<double>(), golden["averages"][i - 1],
                        3e-6, 1e-7);
    }
  }
}

TEST_CASE("an average is saved with the optimizer, and begins anew where it was not") {
  const auto train = [](const Tensor& w, Optimizer& optimizer, ParameterAverage* average) {
    w.set_grad(full({2}, 0.5, {.dtype = w.dtype()}));
    optimizer.step();
    if (average) average->update();
  };
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool averaged_before : {true, false})
      for (const bool averages_now : {true, false}) {
        Tensor w = parameter(1, dtype), v = parameter(1, dtype);
        Optimizer first = AdamW(Parameters{{"w", w}}), second = AdamW(Parameters{{"w", v}});
        first.make_masters();
        second.make_masters();
        std::optional<ParameterAverage> before, now;
        if (averaged_before) before.emplace(first, ParameterAverageOptions{.decay = 0.9});
        for (int i = 0; i < 3; ++i) train(w, first, before ? &*before : nullptr);
        if (averages_now) now.emplace(second, ParameterAverageOptions{.decay = 0.9});
        v.detach().copy_(w);
        second.load_state_dict(first.state_dict());
        REQUIRE(second.state_dict().tensors.contains("w.average") == averages_now);
        if (!averages_now) continue;
        const Tensor value = dtype == DType::bf16 ? second.master("w") : v;
        const Tensor want = averaged_before ? before->state_dict().at("w") : value;
        CHECK(now->state_dict().at("w").to_vector<float>() == want.to_vector<float>());
        train(v, second, &*now);
      }
}
