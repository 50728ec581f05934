// LossScaler: the update rule on the device, without reading anything back.
#include "mixed_precision/scaling/loss_scale_rules.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include "core/autograd/functions.h"
#include "core/optim/optimizers.h"
#include "core/tensor/host_reads.h"
#include "tools/scaler/loss_scale_simulation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace booster;

namespace {

Tensor flag(bool bad) { return scalar(bad ? 1 : 0); }
Tensor loss() { return scalar(3); }

bool same(const LossScaleState& a, const LossScaleState& b) {
  return a.scale == b.scale && a.good == b.good && a.bad == b.bad && a.refused == b.refused &&
         a.refusals == b.refusals;
}

}  // namespace

TEST_CASE("a scaler on a device follows its law in every preset, and reads nothing back") {
  for (const auto& preset : loss_scale_presets()) {
    CAPTURE(preset.name);
    LossScalePolicy policy = preset.policy;
    policy.growth_interval = 3;
    LossScaler scaler(policy);
    LossScaleState want = first_state(policy);
    scaler.scale(loss());
    for (const bool bad : steps_of("FFIF3I2FIF7I3F4")) {
      const int64_t before = host_reads();
      scaler.scale(loss());
      scaler.update(flag(bad));
      CHECK(host_reads() == before);
      want = next(policy, want, bad);
      CHECK(same(scaler.state(), want));
      CHECK(scaler.scale_tensor().item() == static_cast<float>(want.scale));
      CHECK(scaler.inverse_tensor().item() == static_cast<float>(1 / want.scale));
    }
  }
}

TEST_CASE("the divisor is the one of the moment when the loss was scaled") {
  LossScaler scaler({.init = 1024, .growth_interval = 1});
  const ScaledLoss scaled = scaler.scale(loss());
  scaler.update(flag(false));
  CHECK(scaler.get_scale() == 2048);
  CHECK(scaled.loss.item() * scaled.inverse.item() == 3);
}

TEST_CASE("a loss is scaled in f32 at least, and stays f64") {
  LossScaler scaler;
  const ScaledLoss half = scaler.scale(full({2}, 3, {.dtype = DType::f16}));
  CHECK(half.loss.dtype() == DType::f32);
  CHECK(half.loss.to_vector<float>() == std::vector<float>{196608, 196608});
  CHECK(scaler.scale(full({}, 3, {.dtype = DType::f64})).loss.dtype() == DType::f64);
  CHECK_THROWS_WITH_AS(scaler.scale(arange(2)), doctest::Contains("want a floating dtype"), Error);
}

TEST_CASE("saved at any step and loaded elsewhere, a scaler goes on bit for bit") {
  const auto steps = steps_of("F2IF4I3F9IF2");
  for (const auto& preset : loss_scale_presets())
    for (size_t stop = 0; stop <= steps.size(); ++stop) {
      CAPTURE(preset.name);
      CAPTURE(stop);
      LossScalePolicy policy = preset.policy;
      policy.growth_interval = 3;
      LossScaler whole(policy), resumed(policy);
      whole.scale(loss());
      for (size_t i = 0; i < stop; ++i) whole.update(flag(steps[i]));
      resumed.load_state_dict(whole.state_dict());
      resumed.scale(loss());
      for (size_t i = stop; i < steps.size(); ++i) {
        whole.update(flag(steps[i]));
        resumed.update(flag(steps[i]));
      }
      CHECK(whole.state_dict() == resumed.state_dict());
    }
}

TEST_CASE("a scale that nobody could use is refused, and the diagnosis says why") {
  LossScaler low({.init = 0x1p-126});
  low.scale(loss());
  for (int i = 0; i < 3; ++i) low.update(flag(true));
  CHECK(low.get_scale() == 0x1p-127);
  CHECK(std::isfinite(low.inverse_tensor().item()));
  CHECK(low.diagnosis().find("collapsed") != std::string::npos);
  CHECK(low.diagnosis().find("2 times") != std::string::npos);
  LossScaler high({.init = 0x1p127, .growth_interval = 1});
  CHECK(high.diagnosis().empty());
  high.scale(loss());
  high.update(flag(false));
  CHECK(high.get_scale() == 0x1p127);
  CHECK(high.diagnosis().find("growth beyond") != std::string::npos);
}

TEST_CASE("wrong laws and states are errors that change nothing") {
  CHECK_THROWS_WITH_AS(LossScaler({.growth = 1}), doctest::Contains("growth must be > 1"), Error);
  CHECK_THROWS_WITH_AS(LossScaler({.backoff = 0}), doctest::Contains("backoff"), Error);
  for (const double init : {0.0, -1.0, double(INFINITY), double(NAN), 0x1p-128, 0x1p128})
    CHECK_THROWS_AS(LossScaler({.init = init}), Error);
  LossScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.update(flag(false)), doctest::Contains("no loss was scaled"), Error);
  scaler.scale(loss());
  const auto state = scaler.state_dict();
  for (const char* key : {"scale", "good_steps", "bad_steps"}) {
    auto broken = state;
    broken.erase(key);
    CHECK_THROWS_WITH_AS(scaler.load_state_dict(broken), doctest::Contains(key), Error);
  }
  for (const double value : {double(NAN), double(INFINITY), 0x1p60, 0.5}) {
    auto broken = state;
    broken["scale"] = 7;
    broken["good_steps"] = value;
    CHECK_THROWS_WITH_AS(scaler.load_state_dict(broken), doctest::Contains("whole number"), Error);
  }
  CHECK_THROWS_AS(scaler.set_scale(0), Error);
  CHECK(scaler.state_dict() == state);
}

TEST_CASE("a look at gradients finds what is not finite, or overflows when it is unscaled") {
  Tensor a = ones({3}).requires_grad_(), b = ones({2}, {.dtype = DType::f16}).requires_grad_();
  SGD optimizer({a, b}, {.lr = 1});
  const auto found = [&](float in_a, float in_b, double inverse) {
    a.set_grad(from_vector<float>({1, in_a, 2}, {3}));
    b.set_grad(untracked::cast(from_vector<float>({1, in_b}, {2}), DType::f16));
    return find_non_finite(optimizer, scalar(inverse)).item();
  };
  CHECK(found(1, 1, 0.5) == 0);
  CHECK(found(INFINITY, 1, 0.5) == 1);
  CHECK(found(1, NAN, 0.5) == 1);
  CHECK(found(3e38f, 1, 1) == 0);
  CHECK(found(3e38f, 1, 2) == 1);
  CHECK(found(1, 65504, 2) == 0);  // a step multiplies in f32
  CHECK(a.grad().to_vector<float>() == std::vector<float>{1, 1, 2});
  CHECK(unscale_gradients(optimizer, scalar(0.5)).item() == 0);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{0.5f, 0.5f, 1});
  CHECK(unscale_gradients(optimizer, scalar(4)).item() == 1);  // 65504 * 2 does not fit into f16
  optimizer.zero_grad();
  CHECK(find_non_finite(optimizer).item() == 0);
}

TEST_CASE("only gradients that the optimizer owns are looked at and unscaled") {
  Tensor w = zeros({3}).requires_grad_();
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 1});
  optimizer.own("w", {1, 3});
  w.set_grad(from_vector<float>({INFINITY, 4, 6}, {3}));
  CHECK(find_non_finite(optimizer).item() == 0);
  const auto version = w.grad().version();
  CHECK(unscale_gradients(optimizer, scalar(0.5)).item() == 0);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{INFINITY, 2, 3});
  CHECK(w.grad().version() > version);
  optimizer.own("w", {0, 1});
  CHECK(find_non_finite(optimizer).item() == 1);
}

TEST_CASE("the norm of clipping lasts as long as the gradients, and not past zero_grad") {
  for (const bool steps : {false, true}) {
    Tensor w = zeros({3}).requires_grad_();
    Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 1});
    w.set_grad(ones({3}));
    optimizer.clip_grad_by_norm(1);
    if (steps) optimizer.step();
    CHECK(optimizer.clipped_norm().defined());
    optimizer.zero_grad();
    w.set_grad(full({3}, INFINITY));  // in the old gradient's memory, as in steady training
    CHECK_FALSE(optimizer.clipped_norm().defined());
    CHECK(find_non_finite(optimizer).item() != 0);
  }
}

TEST_CASE("after clipping the norm tells whether gradients are finite, until one changes") {
  Tensor w = zeros({3}).requires_grad_();
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 1});
  const auto found_after_clip = [&](const std::vector<float>& grad, double inverse) {
    optimizer.zero_grad();
    w.set_grad(from_vector(grad, {3}));
    const Tensor factor = scalar(inverse);
    optimizer.clip_grad_by_norm(1, 2, factor);
    CHECK(optimizer.clipped_norm().defined());
    return find_non_finite(optimizer, factor).item() != 0;
  };
  CHECK_FALSE(found_after_clip({3e38f, 0, 1}, 1));
  CHECK(found_after_clip({3e38f, 0, 1}, 2));  // the true gradient overflows
  CHECK(found_after_clip({0, INFINITY, 1}, 0.5));
  CHECK(found_after_clip({0, NAN, 1}, 0.5));

  CHECK_FALSE(found_after_clip({1, 2, 3}, 1));
  w.grad().copy_(from_vector<float>({1, INFINITY, 3}, {3}));  // for example manually added noise
  CHECK_FALSE(optimizer.clipped_norm().defined());
  CHECK(find_non_finite(optimizer, scalar(1)).item() != 0);
}
