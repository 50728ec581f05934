// Gradient clipping against PyTorch's values, and at the limits of the number range.
#include "core/optim/clip.h"
#include "core/optim/optimizers.h"
#include "tests/optim/golden.h"

#include <limits>

using namespace booster;
using namespace booster::test;

namespace {

Parameters with_grad(const std::vector<float>& grad) {
  Tensor w = zeros({static_cast<int64_t>(grad.size())}).requires_grad_();
  w.set_grad(from_vector(grad, w.shape()));
  return {{"w", w}, {"without gradient", zeros({3}).requires_grad_()}};
}
std::vector<float> grad_of(const Parameters& parameters) {
  return parameters[0].tensor.grad().to_vector<float>();
}

}  // namespace

TEST_CASE("clipping by norm agrees with PyTorch for every p") {
  const Json file = golden("clipping");
  for (const Json& one : file["cases"]) {
    Json grads = file["grads"];
    const double scale = one["scale"];
    for (auto& values : grads)
      for (auto& value : values)
        value =
            static_cast<double>(static_cast<float>(value.get<float>() * static_cast<float>(scale)));
    const double power = one["power"].is_string() ? std::numeric_limits<double>::infinity()
                                                  : one["power"].get<double>();
    CAPTURE(power);
    CAPTURE(scale);
    const Parameters parameters = parameters_of(grads, file["shapes"], DType::f64);
    set_grads(parameters, grads, file["shapes"]);
    const double norm = clip_grad_norm_(parameters, one["max_norm"], power);
    CHECK(norm == doctest::Approx(one["norm"].get<double>()).epsilon(1e-12));
    for (const auto& [name, tensor] : parameters)
      check_close(tensor.grad().to_vector<double>(), one["grads"][name], 1e-6, 1e-12);
  }
}

TEST_CASE("gradients below the limit keep their bits") {
  const auto parameters = with_grad({0.1f, 0.2f});
  CHECK(clip_grad_norm_(parameters, 1) == doctest::Approx(std::sqrt(0.05)));
  CHECK(grad_of(parameters) == std::vector<float>{0.1f, 0.2f});
}

TEST_CASE("finite f32 gradients near 2e19 and 3e38 clip to the limit, not to 0") {
  for (float size : {2e19f, 3e38f}) {
    const auto parameters = with_grad({size, size});
    const double norm = clip_grad_norm_(parameters, 1);
    CHECK(std::isfinite(norm));
    CHECK(grad_of(parameters)[0] == doctest::Approx(std::sqrt(0.5)).epsilon(1e-5));
  }
}

TEST_CASE("a norm that is not finite is reported, or an error if asked for") {
  const float infinity = std::numeric_limits<float>::infinity();
  auto parameters = with_grad({1, infinity});
  CHECK(clip_grad_norm_(parameters, 1) == infinity);
  CHECK(grad_of(parameters)[0] == 0);
  CHECK(std::isnan(grad_of(parameters)[1]));
  parameters = with_grad({1, NAN});
  CHECK(std::isnan(clip_grad_norm_(parameters, 1)));
  parameters = with_grad({1, infinity});
  CHECK_THROWS_WITH_AS(clip_grad_norm_(parameters, 1, 2, true),
                       "clip_grad_norm_: the norm of the gradients is not finite; got inf", Error);
  CHECK(grad_of(parameters)[0] == 1);
}

TEST_CASE("clipping by value clamps both ways") {
  const auto parameters = with_grad({-3, -0.5f, 0, 0.5f, 3});
  clip_grad_value_(parameters, 1);
  CHECK(grad_of(parameters) == std::vector<float>{-1, -0.5f, 0, 0.5f, 1});
  CHECK_THROWS_AS(clip_grad_value_(parameters, -1), Error);
}

TEST_CASE("wrong limits are refused, no gradients are no error") {
  const auto parameters = with_grad({1});
  CHECK_THROWS_AS(clip_grad_norm_(parameters, -1), Error);
  CHECK_THROWS_AS(clip_grad_norm_(parameters, NAN), Error);
  CHECK_THROWS_AS(clip_grad_norm_(parameters, 1, 0), Error);
  CHECK(clip_grad_norm_({parameters[1]}, 1) == 0);
}

TEST_CASE("a clip lasts while the gradients are those that were clipped") {
  Tensor w = zeros({1}).requires_grad_();
  Optimizer optimizer = SGD(Parameters{{"w", w}}, {.lr = 1});
  const auto change = [&] {
    const double before = w.item();
    optimizer.step();
    return before - w.item();
  };
  w.set_grad(full({1}, 4));
  optimizer.clip_grad_by_norm(1);
  CHECK(change() == doctest::Approx(1));
  CHECK(change() == doctest::Approx(1));  // the same gradients
  w.set_grad(full({1}, 4));
  CHECK(change() == 4);  // new gradients
  optimizer.clip_grad_by_norm(1);
  optimizer.settle_clip();
  w.grad().add_(ones({1}));
  CHECK(change() == doctest::Approx(2));
}
