// The state machine of torch.amp.GradScaler; scale_sequence_test.cpp tests its scales.
#include "mixed_precision/scaling/loss_scaler.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/tensor/host_reads.h"
#include "tests/mixed_precision/scaled_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

using namespace booster;
using booster::test::ScaledTraining;

TEST_CASE("a nan counts as an overflow") {
  GradScaler scaler;
  ScaledTraining training;
  training.backward(scaler, NAN);
  scaler.step(training.optimizer);
  scaler.update();
  CHECK(scaler.get_scale() == 32768);
  CHECK(training.w.item() == 1);
}

TEST_CASE("a step uses the true gradient, unscaled by the step or by unscale_") {
  for (const bool explicitly : {false, true}) {
    GradScaler scaler({.init_scale = 1024});
    ScaledTraining training;
    training.backward(scaler, 2);
    if (explicitly) {
      scaler.unscale_(training.optimizer);
      CHECK(training.w.grad().item() == 2);
    }
    scaler.step(training.optimizer);
    CHECK(training.w.grad().item() == 2);
    scaler.update();
    CHECK(training.w.item() == 0);
  }
}

TEST_CASE("calls out of order are errors") {
  ScaledTraining training;
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.step(training.optimizer), doctest::Contains("no loss was scaled"),
                       Error);
  CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("no loss was scaled"), Error);
  training.backward(scaler, 1);
  CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("no inf checks were recorded"), Error);
  scaler.unscale_(training.optimizer);
  CHECK_THROWS_WITH_AS(scaler.unscale_(training.optimizer), doctest::Contains("already called"),
                       Error);
  scaler.step(training.optimizer);
  CHECK_THROWS_WITH_AS(scaler.step(training.optimizer), doctest::Contains("after step()"), Error);
  CHECK_THROWS_WITH_AS(scaler.unscale_(training.optimizer), doctest::Contains("after step()"),
                       Error);
  scaler.update();
  training.backward(scaler, 1);
  scaler.unscale_(training.optimizer);
  scaler.update();  // inspecting an optimizer without a step is legal
}

TEST_CASE("an optimizer without any gradient is an error") {
  ScaledTraining training;
  GradScaler scaler;
  training.backward(scaler, 1);
  training.optimizer.zero_grad();
  CHECK_THROWS_WITH_AS(scaler.step(training.optimizer),
                       doctest::Contains("no inf checks were recorded for this optimizer"), Error);
  scaler.unscale_(training.optimizer);  // does nothing, as in torch
  CHECK_THROWS_WITH_AS(scaler.step(training.optimizer),
                       doctest::Contains("no inf checks were recorded for this optimizer"), Error);
}

TEST_CASE("f16 gradients are refused by name and left alone") {
  Tensor w = ones({2}, {.dtype = DType::f16}).requires_grad_();
  SGD optimizer(Parameters{{"half.weight", w}}, {.lr = 1});
  GradScaler scaler;
  booster::backward(scaler.scale(sum(cast(w, DType::f32)) * 0.001));
  const double before = w.grad().to_vector<double>()[0];
  CHECK_THROWS_WITH_AS(scaler.unscale_(optimizer), doctest::Contains("half.weight"), Error);
  CHECK(w.grad().to_vector<double>()[0] == before);
}

TEST_CASE("f16 parameters step without unscale_, as with torch's fused optimizers") {
  for (const bool overflows : {false, true}) {
    CAPTURE(overflows);
    Tensor w = ones({2}, {.dtype = DType::f16}).requires_grad_();
    Tensor wide = ones({1}).requires_grad_();
    SGD optimizer(Parameters{{"half", w}, {"wide", wide}}, {.lr = 1});
    GradScaler scaler({.init_scale = 1024});
    const Tensor by = from_vector<float>({0x1p-4f, overflows ? INFINITY : 0x1p-9f}, {2});
    booster::backward(scaler.scale(sum(cast(w, DType::f32) * by) + sum(wide * 0.5)));
    const auto report = scaler.step(optimizer);
    CHECK(report.skipped() == overflows);
    scaler.update();
    CHECK(report.skipped() == overflows);
    const auto values = w.to_vector<double>();
    CHECK(values[0] == (overflows ? 1 : 1 - 0x1p-4));
    CHECK(values[1] == (overflows ? 1 : 1 - 0x1p-9));
    CHECK(wide.item() == (overflows ? 1 : 0.5));
    CHECK(w.grad().dtype() == DType::f16);
    CHECK(w.grad().to_vector<double>()[0] == 0x1p-4);
    CHECK(wide.grad().item() == 0.5);
    CHECK(scaler.get_scale() == (overflows ? 512 : 1024));
  }
}

TEST_CASE("a step says whether it was skipped, when it is asked") {
  GradScaler scaler;
  ScaledTraining a, b;
  a.backward(scaler, INFINITY);
  b.backward(scaler, 1);
  const int64_t before = host_reads();
  const auto first = scaler.step(a.optimizer), second = scaler.step(b.optimizer);
  CHECK(host_reads() == before);
  scaler.update();
  CHECK(first.skipped());
  CHECK(!second.skipped());
  GradScaler off({.enabled = false});
  a.backward(off, 1);
  CHECK(!off.step(a.optimizer).skipped());
}

TEST_CASE("two optimizers decide for themselves, the scale backs off once for both") {
  const char* a_steps = "FFIIFFF";
  const char* b_steps = "FIFIFFF";
  const double scales[] = {65536, 32768, 16384, 8192, 8192, 8192, 16384};
  GradScaler scaler({.growth_interval = 3});
  ScaledTraining a, b;
  for (int i = 0; i < 7; ++i) {
    const double before_a = a.w.item(), before_b = b.w.item();
    a.backward(scaler, a_steps[i] == 'I' ? INFINITY : 1);
    b.backward(scaler, b_steps[i] == 'I' ? INFINITY : 1);
    scaler.step(a.optimizer);
    scaler.step(b.optimizer);
    scaler.update();
    CHECK((a.w.item() == before_a) == (a_steps[i] == 'I'));
    CHECK((b.w.item() == before_b) == (b_steps[i] == 'I'));
    CHECK(scaler.get_scale() == scales[i]);
  }
}

TEST_CASE("a saved scaler goes on in the middle of a growth interval") {
  auto steps = [](GradScaler& scaler, int n) {
    ScaledTraining training;
    for (int i = 0; i < n; ++i) {
      training.backward(scaler, 1);
      scaler.step(training.optimizer);
      scaler.update();
    }
  };
  GradScaler first({.growth_interval = 3}), second({.growth_interval = 7});
  steps(first, 2);
  second.load_state_dict(first.state_dict());
  CHECK(second.growth_tracker() == 2);
  steps(second, 1);
  CHECK(second.get_scale() == 131072);
  auto state = first.state_dict();
  state.erase("_growth_tracker");
  state["scale"] = 7;
  CHECK_THROWS_AS(second.load_state_dict(state), Error);
  CHECK(second.get_scale() == 131072);
}

TEST_CASE("a scale whose inverse overflows is refused before it can corrupt a parameter") {
  GradScaler scaler({.init_scale = 0x1p-130});
  ScaledTraining training;
  training.backward(scaler, 1);
  CHECK_THROWS_WITH_AS(scaler.step(training.optimizer), doctest::Contains("out of range"), Error);
  CHECK(training.w.item() == 1);
}

TEST_CASE("below one the product is checked too") {
  GradScaler scaler({.init_scale = 0x1p-10});
  ScaledTraining training;
  training.optimizer.zero_grad();
  // A gradient that is finite, but not after division by the scale.
  booster::backward(scaler.scale(sum(training.w * 1.0)));
  training.w.set_grad(from_vector<float>({3e38f}, {1}));
  scaler.step(training.optimizer);
  CHECK(training.w.item() == 1);
  scaler.update();
  CHECK(scaler.get_scale() == 0x1p-11);
}

TEST_CASE("a disabled scaler passes everything through") {
  GradScaler scaler({.enabled = false});
  ScaledTraining training;
  training.backward(scaler, 1);
  scaler.step(training.optimizer);
  scaler.update();
  CHECK(training.w.item() == 0.5);
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.state_dict().empty());
}

TEST_CASE("wrong factors are errors, and a 16-bit loss is scaled in f32") {
  CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), Error);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), Error);
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), Error);
  GradScaler scaler;
  const Tensor loss = scaler.scale(ones({2}, {.dtype = DType::f16}) * 3.0);
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.to_vector<float>()[0] == 3 * 65536.0f);
}

TEST_CASE("scaling, stepping, skipping and updating read nothing back") {
  GradScaler scaler({.growth_interval = 2});
  ScaledTraining a, b;
  const int64_t before = host_reads();
  for (const double gradient : {1.0, 1.0, double(INFINITY), double(NAN), 1.0, 1.0}) {
    a.backward(scaler, gradient);
    b.backward(scaler, 1);
    scaler.unscale_(b.optimizer);
    scaler.step(a.optimizer);
    scaler.step(b.optimizer);
    scaler.update();
  }
  CHECK(host_reads() == before);
  CHECK(scaler.get_scale() == 65536);  // x 2, / 2, / 2, x 2
}

TEST_CASE("infinite gradients, unscaled and clipped, still skip the step and halve the scale") {
  GradScaler scaler;
  ScaledTraining training;
  training.backward(scaler, INFINITY);
  scaler.unscale_(training.optimizer);
  training.optimizer.clip_grad_by_norm(1);
  scaler.step(training.optimizer);
  scaler.update();
  CHECK(training.w.item() == 1);
  CHECK(scaler.get_scale() == 32768);
}

TEST_CASE("micro-batches are scaled alike and add up, several losses too") {
  GradScaler scaler({.init_scale = 1024, .growth_interval = 1});
  ScaledTraining training;
  training.optimizer.zero_grad();
  booster::backward(scaler.scale(sum(training.w * 0.25)));
  booster::backward(scaler.scale(sum(training.w * 0.5)));
  booster::backward(scaler.scale(sum(training.w * 0.25)));
  CHECK(training.w.grad().item() == 1024);
  scaler.step(training.optimizer);
  scaler.update();
  CHECK(training.w.item() == 0.5);
  CHECK(scaler.get_scale() == 2048);
}

TEST_CASE("state is there from the start and is loaded whole or not at all") {
  GradScaler scaler({.init_scale = 1024});
  const auto state = scaler.state_dict();
  CHECK(state.size() == 5);
  CHECK(state.at("scale") == 1024);
  CHECK(state.at("_growth_tracker") == 0);
  CHECK_THROWS_AS(scaler.load_state_dict({}), Error);
  for (const char* key : {"scale", "_growth_tracker", "growth_interval"}) {
    auto broken = state;
    broken["growth_factor"] = 9;
    broken[key] = NAN;
    CHECK_THROWS_AS(scaler.load_state_dict(broken), Error);
  }
  CHECK(scaler.state_dict() == state);
  GradScaler disabled({.enabled = false});
  disabled.load_state_dict({});
}
