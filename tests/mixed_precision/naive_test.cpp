// fp16_naive: the model in f16, masters in f32, Colossal-AI's scaler.
#include "kernels/arguments/multi_tensor.h"
#include "mixed_precision/strategies/fp16_naive.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/optim/optimizers.h"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::Weight;

namespace {

// A step as in a Booster, without ranks.
struct NaiveTraining {
  FP16Naive precision;
  std::shared_ptr<Weight> module = std::make_shared<Weight>(zeros({1}));
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});

  explicit NaiveTraining(FP16NaiveOptions options) : precision(options) {
    precision.prepare(module, optimizer);
  }
  double value() const { return optimizer.master("w").item(); }
  // Returns the master's change for a gradient.
  double step(double gradient, double max_norm = 0) {
    const double before = value();
    optimizer.zero_grad();
    const Tensor x = full({1}, gradient);
    const Tensor y = precision.cast_output(Model(module)(precision.cast_input(x)));
    backward(precision.begin_loss({.optimizers = optimizer}).scale(sum(y)));
    if (max_norm > 0) {
      precision.unscale(optimizer);
      optimizer.clip_grad_by_norm(max_norm);
    }
    const Verdict verdict = precision.inspect(optimizer);
    const auto on_device = [](const Tensor& t) {
      return t.defined() ? static_cast<const float*>(t.data()) : nullptr;
    };
    optimizer.step({.found_inf = on_device(verdict.found_inf),
                    .inverse_scale = on_device(verdict.inverse_scale)});
    precision.update(verdict);
    return value() - before;
  }
};

}  // namespace

TEST_CASE("the divisor is the scale that the loss was multiplied by, also when the scale grows") {
  NaiveTraining training({.initial_scale = 1024, .growth_interval = 3});
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(training.step(2) == -2);
  }
  CHECK(training.precision.scaler().get_scale() == 4096);
}

TEST_CASE("hysteresis counts overflows since the last growth; every overflow skips its step") {
  NaiveTraining training({.initial_scale = 1024, .growth_interval = 3, .hysteresis = 2});
  const double inf = INFINITY;
  const double gradients[] = {inf, 1, 1, inf, 1, 1, inf, 1, 1};
  const double scales[] = {1024, 1024, 1024, 512, 512, 512, 256, 256, 256};
  for (int i = 0; i < 9; ++i) {
    CAPTURE(i);
    CHECK(training.step(gradients[i]) == (gradients[i] == 1 ? -1 : 0));
    CHECK(training.precision.scaler().get_scale() == scales[i]);
  }
  CHECK(training.precision.state() ==
        PrecisionNumbers{{"scale", 256}, {"good_steps", 2}, {"bad_steps", 3}});
}

TEST_CASE("clipping sees true gradients, and small ones are not lost in f16") {
  NaiveTraining training({.initial_scale = 1024});
  CHECK(training.step(4, 1) == doctest::Approx(-1).epsilon(1e-5));
  // 1.0009765625 * 2^-14 uses all of f16's digits; divided by the scale it would keep none.
  const double small = std::ldexp(1.0 + 0x1p-10, -14);
  training.optimizer.zero_grad();
  training.precision.begin_loss({.optimizers = training.optimizer});
  training.module->w.set_grad(full({1}, small, {.dtype = DType::f16}));
  training.precision.unscale(training.optimizer);
  CHECK(training.module->w.grad().item() == small / 1024);
  CHECK(training.module->w.grad().dtype() == DType::f32);
}

TEST_CASE("everything inside is f16; inputs of other kinds, outputs and the loss are not") {
  NaiveTraining training({});
  CHECK(training.module->w.dtype() == DType::f16);
  CHECK(training.precision.cast_input(arange(3)).dtype() == DType::i64);
  CHECK(training.precision.cast_input(ones({2})).dtype() == DType::f16);
  CHECK(training.precision.cast_output(ones({2}, {DType::f16})).dtype() == DType::f32);
  CHECK(training.precision.begin_loss({}).scale(scalar(2, {DType::f16})).item() ==
        131072);  // beyond f16
}

TEST_CASE("options out of range are errors") {
  const auto refuses = [](FP16NaiveOptions options) { CHECK_THROWS_AS(FP16Naive{options}, Error); };
  refuses({.initial_scale = 0});
  refuses({.growth_factor = 1});
  refuses({.backoff_factor = 1});
  refuses({.initial_scale = 2, .min_scale = 4});
  refuses({.initial_scale = 8, .max_scale = 4});
  refuses({.hysteresis = -1});
  CHECK_NOTHROW(FP16Naive({.min_scale = 0, .max_scale = 0}));
}

TEST_CASE("gradients of a loss that was not scaled are an error; no gradients are none") {
  NaiveTraining training({});
  CHECK(training.precision.inspect(training.optimizer).found_inf.item() == 0);
  training.module->w.set_grad(full({1}, 1, {.dtype = DType::f16}));
  const auto refuses = [](auto&& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("gradients of an unscaled loss"), Error);
  };
  refuses([&] { training.precision.inspect(training.optimizer); });
  refuses([&] { training.precision.unscale(training.optimizer); });
  refuses([&] { training.precision.begin_loss({.optimizers = training.optimizer}); });
}

TEST_CASE("verbose and log_num_zeros_in_grad tell of skipped steps and of zeros") {
  NaiveTraining training(
      {.initial_scale = 1024, .hysteresis = 1, .verbose = true, .log_num_zeros_in_grad = true});
  training.step(0);
  training.step(INFINITY);
  CHECK(training.precision.take_notes() ==
        std::vector<std::string>{"fp16_naive: num zeros in grad: 1",
                                 "fp16_naive: num zeros in grad: 0",
                                 "fp16_naive: overflow: step skipped, loss scale 512"});
}
