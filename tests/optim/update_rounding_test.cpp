// bf16 parameters without masters: how steps round the values that they write.
#include "core/optim/optimizers.h"
#include "kernels/arguments/multi_tensor.h"
#include "platform/error.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

Parameters two_of(DType dtype) {
  Parameters parameters = {{"a", ones({5}, {dtype})}, {"b", ones({5}, {dtype})}};
  for (auto& [name, tensor] : parameters) {
    tensor.requires_grad_();
    tensor.set_grad(full({5}, -1, {dtype}));
  }
  return parameters;
}

void round_all(Optimizer& optimizer, UpdateRounding rounding, uint32_t seed = 0) {
  for (const auto& [name, tensor] : optimizer.parameters())
    optimizer.set_rounding(name, rounding, seed);
}

std::vector<double> values(const Parameters& parameters) {
  std::vector<double> all;
  for (const auto& [name, tensor] : parameters)
    for (double x : tensor.to_vector<double>()) all.push_back(x);
  return all;
}

std::vector<double> after_steps(Optimizer optimizer, UpdateRounding rounding, int steps,
                                uint32_t seed = 0) {
  round_all(optimizer, rounding, seed);
  for (int i = 0; i < steps; ++i) optimizer.step();
  return values(optimizer.parameters());
}

}  // namespace

TEST_CASE("updates below half a unit are lost by nearest and kept by Kahan, in every optimizer") {
  const auto bf16 = [] { return two_of(DType::bf16); };
  const auto both = [&](auto make, double want) {
    for (double x : after_steps(make(), UpdateRounding::nearest, 100)) CHECK(x == 1);
    for (double x : after_steps(make(), UpdateRounding::kahan, 100))
      CHECK(x == doctest::Approx(want).epsilon(0.005));
  };
  both([&] { return SGD(bf16(), {.lr = 1e-3}); }, 1.1);
  both([&] { return Adam(bf16(), {.lr = 1e-3}); }, 1.1);
  both([&] { return LAMB(bf16(), {.lr = 1e-3, .weight_decay = 1e-9}); }, std::exp(0.1));
}

TEST_CASE("the noise differs between steps, parameters and seeds, and repeats for the same") {
  const auto run = [](int steps, uint32_t seed) {
    return after_steps(SGD(two_of(DType::bf16), {.lr = 3e-3}), UpdateRounding::stochastic, steps,
                       seed);
  };
  const auto once = run(20, 1);
  CHECK(run(20, 1) == once);
  CHECK(run(20, 2) != once);
  CHECK(std::vector(once.begin(), once.begin() + 5) != std::vector(once.begin() + 5, once.end()));
}

TEST_CASE("a run continued from saved state has the bits of one never stopped") {
  for (UpdateRounding rounding : {UpdateRounding::stochastic, UpdateRounding::kahan}) {
    auto whole = SGD(two_of(DType::bf16), {.lr = 1e-3, .momentum = 0.5});
    round_all(whole, rounding);
    for (int i = 0; i < 7; ++i) whole.step();
    auto resumed = SGD(two_of(DType::bf16), {.lr = 1e-3, .momentum = 0.5});
    round_all(resumed, rounding);
    for (size_t i = 0; i < 2; ++i)
      resumed.parameters()[i].tensor.detach().copy_(whole.parameters()[i].tensor);
    resumed.load_state_dict(whole.state_dict());
    for (int i = 0; i < 30; ++i) {
      whole.step();
      resumed.step();
    }
    CHECK(values(whole.parameters()) == values(resumed.parameters()));
    const auto saved = whole.state_dict(), again = resumed.state_dict();
    CHECK(saved.tensors.count("a.compensation") == (rounding == UpdateRounding::kahan));
    for (const auto& [name, tensor] : saved.tensors)
      CHECK(tensor.to_vector<double>() == again.tensors.at(name).to_vector<double>());
  }
}

TEST_CASE("a compensation is loaded only where one is kept") {
  auto kahan = SGD(two_of(DType::bf16), {.lr = 1e-3});
  auto nearest = SGD(two_of(DType::bf16), {.lr = 1e-3});
  round_all(kahan, UpdateRounding::kahan);
  CHECK_THROWS_WITH_AS(nearest.load_state_dict(kahan.state_dict()),
                       "load_state_dict: compensation of parameter a; got one, want none (saved "
                       "under another precision)",
                       Error);
  CHECK_THROWS_AS(kahan.load_state_dict(nearest.state_dict()), Error);
}

TEST_CASE("a rounding other than nearest wants a bf16 parameter without a master") {
  auto halves = SGD(two_of(DType::f16), {.lr = 1e-3});
  CHECK_THROWS_WITH_AS(halves.set_rounding("a", UpdateRounding::kahan),
                       "set_rounding: parameter a has the wrong dtype; got f16, want bf16", Error);
  auto optimizer = SGD(two_of(DType::bf16), {.lr = 1e-3});
  CHECK_THROWS_AS(optimizer.set_rounding("c", UpdateRounding::kahan), Error);
  optimizer.set_rounding("b", UpdateRounding::kahan);
  CHECK_THROWS_AS(optimizer.set_master("b", ones({5})), Error);
  optimizer.set_master("a", ones({5}));
  CHECK_THROWS_AS(optimizer.set_rounding("a", UpdateRounding::stochastic), Error);
}
