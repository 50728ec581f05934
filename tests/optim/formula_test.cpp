// An optimizer of a formula on tensors does what the built-in one of that formula does.
#include "core/autograd/functions.h"
#include "core/optim/optimizers.h"
#include "core/tensor/random/random.h"
#include "kernels/arguments/multi_tensor.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/optim/leaf.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

using Floats = std::vector<float>;

OptimizerFormula adamw_formula() {
  const auto update = [](FormulaStep& step) {
    const double beta1 = step.options.at("beta1"), beta2 = step.options.at("beta2");
    const double lr = step.options.at("lr");
    step.value = step.value * (1 - lr * step.options.at("weight_decay"));
    step.state[0] = lerp(step.gradient, step.state[0], beta1);
    step.state[1] = lerp(square(step.gradient), step.state[1], beta2);
    const DType dtype = step.value.dtype();
    const Tensor m = step.state[0] / (1 - pow(beta1, step.count)).to(dtype);
    const Tensor v = step.state[1] / (1 - pow(beta2, step.count)).to(dtype);
    step.value = step.value - lr * m / (sqrt(v) + 1e-8);
  };
  return {.name = "own_adamw", .states = {"exp_avg", "exp_avg_sq"}, .update = update};
}

const GroupOptions own_options = {
    {"lr", 0.01}, {"betas", {0.8, 0.95}}, {"weight_decay", 0.1}};

bool are_close(const Tensor& a, const Tensor& b, double tolerance) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != doctest::Approx(y[i]).epsilon(tolerance).scale(1)) return false;
  return x.size() == y.size();
}

}  // namespace

TEST_CASE("a formula of AdamW gives AdamW's values, states and counts, in any sequence of calls") {
  for (const unsigned seed : testing::draws(120)) {
    std::mt19937 random(seed);
    manual_seed(seed);
    const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
    const DType dtype = dtypes[random() % 4];
    const bool has_master = is_16_bit(dtype) && random() % 2 == 0;
    CAPTURE(seed);
    const Tensor first = normal({7}).to(dtype), second = normal({2, 3}).to(dtype);
    Parameters own, theirs;
    for (const auto& [name, x] : {std::pair("a", first), std::pair("b", second)}) {
      own.push_back({name, x.detach().clone().requires_grad_()});
      theirs.push_back({name, x.detach().clone().requires_grad_()});
    }
    Optimizer mine = optimizer_of(adamw_formula(), own, own_options);
    Optimizer built_in =
        AdamW(theirs, {.lr = 0.01, .betas = {0.8, 0.95}, .weight_decay = 0.1});
    if (has_master) {
      mine.make_masters();
      built_in.make_masters();
    }
    if (random() % 3 == 0)
      for (Optimizer* one : {&mine, &built_in}) one->own("a", {2, 5});
    for (int step = 0; step < 6; ++step) {
      const double norm = random() % 2 ? 0.5 : 0;
      const Tensor found = scalar(random() % 4 == 0 ? 1 : 0), inverse = scalar(0.25);
      for (size_t i = 0; i < own.size(); ++i) {
        if (random() % 5 == 0) continue;
        const Tensor g = (normal(own[i].tensor.shape()) * 4).to(dtype);
        own[i].tensor.set_grad(g.clone());
        theirs[i].tensor.set_grad(g.clone());
      }
      for (Optimizer* one : {&mine, &built_in}) {
        if (norm > 0) one->clip_grad_by_norm(norm, 2, inverse);
        one->step(found, inverse);
        one->zero_grad();
        one->set_lr(0.01 / (step + 1));
      }
      const double tolerance = dtype == DType::bf16 ? 2e-2 : dtype == DType::f16 ? 3e-3 : 1e-5;
      for (size_t i = 0; i < own.size(); ++i)
        CHECK(are_close(own[i].tensor, theirs[i].tensor, tolerance));
    }
    const OptimizerState a = mine.state_dict(), b = built_in.state_dict();
    CHECK(a.rule == "own_adamw");
    CHECK(a.steps == b.steps);
    REQUIRE(a.tensors.size() == b.tensors.size());
    for (const auto& [name, tensor] : a.tensors)
      CHECK(are_close(tensor, b.tensors.at(name), 1e-4));
  }
}

TEST_CASE("a formula's optimizer resumes, and refuses what it cannot do") {
  Tensor w = leaf({1, -2, 3}), again = leaf({1, -2, 3});
  Optimizer optimizer = optimizer_of(adamw_formula(), Parameters{{"w", w}}, own_options);
  Optimizer resumed = optimizer_of(adamw_formula(), Parameters{{"w", again}}, own_options);
  set_grad(w, {1, 2, 3});
  optimizer.step();
  again.detach().copy_(w);
  resumed.load_state_dict(optimizer.state_dict());
  set_grad(again, {1, 2, 3});
  optimizer.step();
  resumed.step();
  CHECK(values_of(w) == values_of(again));

  const auto made = [&](OptimizerFormula formula, const GroupOptions& options) {
    return error_of([&] {
      Tensor x = leaf({1, 2});
      Optimizer one = optimizer_of(std::move(formula), Parameters{{"x", x}}, options);
      set_grad(x, {1, 1});
      one.step();
    });
  };
  CHECK(contains(made({.name = "none"}, own_options), "want a name, a function"));
  CHECK(contains(made(adamw_formula(), {{"momentum", 0.9}}), "no learning rate"));
  CHECK(contains(made({.name = "wrong", .update = [](FormulaStep& step) {
                         step.value = sum(step.value);
                       }},
                      {{"lr", 1.0}}),
                 "the formula's value has another form"));
  Tensor rounded = leaf({1, 2}, DType::bf16);
  Optimizer stochastic = optimizer_of(adamw_formula(), Parameters{{"x", rounded}}, own_options);
  stochastic.set_rounding("x", UpdateRounding::stochastic, 1);
  set_grad(rounded, {1, 1});
  CHECK(contains(error_of([&] { stochastic.step(); }), "rounds to the nearest value"));
}

TEST_CASE("a permuted parameter is refused with what to do about it") {
  Tensor permuted = transpose(ones({2, 3}), 0, 1);
  permuted.requires_grad_();
  CHECK(contains(error_of([&] { SGD(std::vector<Tensor>{permuted}, {.lr = 0.1}); }),
                 "want a copy by contiguous()"));
}
