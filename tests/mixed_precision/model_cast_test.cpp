// Models in 16 bits with f32 masters.
#include "mixed_precision/interface/precision.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "mixed_precision/scaling/loss_scaler.h"
#include "mixed_precision/scaling/scaled_step.h"
#include "tests/mixed_precision/dtype_of.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::dtype_of;

namespace {

Model small_net() {
  return Sequential{Conv2d(3, 4, 1), BatchNorm2d(4), BatchNorm2d(4, {.affine = false}), Flatten(),
                    Linear(16, 2)};
}

// One f16 parameter with an f32 master.
struct Single : Module {
  explicit Single(double value) : Module("Single"), w(add_parameter("w", full({1}, value))) {}
  Tensor forward(const Tensor& x) override { return x * w; }
  const Tensor w;
};

}  // namespace

TEST_CASE("a cast converts parameters and buffers but what is kept and what is not floating") {
  const Model model = small_net();
  cast_model(model, {.keep = is_affine_batch_norm});
  CHECK(dtype_of(model, "0.weight") == DType::f16);
  CHECK(dtype_of(model, "1.weight") == DType::f32);
  CHECK(dtype_of(model, "1.running_var") == DType::f32);
  CHECK(dtype_of(model, "2.running_mean") == DType::f16);  // no weights: cast like the rest
  CHECK(dtype_of(model, "2.num_batches_tracked") == DType::i64);
  CHECK(dtype_of(model, "4.bias") == DType::f16);
  const Model all = small_net();
  cast_model(all, {.dtype = DType::bf16});
  CHECK(dtype_of(all, "1.weight") == DType::bf16);
  CHECK_THROWS_WITH_AS(cast_model(all, {.dtype = DType::f32}),
                       "cast_model: wrong dtype; got f32, want f16 or bf16, or f64 without masters",
                       Error);
  cast_model(all, {.dtype = DType::f64, .masters = false});
  CHECK(dtype_of(all, "1.running_var") == DType::f64);
}

TEST_CASE("masters keep the digits that 16 bits have not, for converted parameters only") {
  const Model model = small_net();
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  const auto before = model.parameters()[0].tensor.to_vector<float>();
  cast_model(model, optimizer, {.keep = is_affine_batch_norm});
  CHECK(optimizer.master("0.weight").to_vector<float>() == before);
  CHECK(model.parameters()[0].tensor.to_vector<float>() != before);
  CHECK_FALSE(optimizer.master("1.weight").defined());
  const Model without = small_net();
  Optimizer plain = SGD(without.parameters(), {.lr = 0.1});
  cast_model(without, plain, {.masters = false});
  CHECK_FALSE(plain.master("0.weight").defined());
  plain.make_masters();
  CHECK(plain.master("0.weight").to_vector<float>() ==
        without.parameters()[0].tensor.to_vector<float>());
}

TEST_CASE("parameters added to an optimizer with masters get masters too") {
  auto first = std::make_shared<Single>(1), second = std::make_shared<Single>(2);
  Optimizer optimizer = SGD(Model(first).parameters(), {.lr = 1});
  cast_model(Model(first), optimizer, {});
  cast_model(Model(second), {});
  optimizer.add_group({{{"second", second->w}}});
  CHECK(optimizer.master("second").item() == 2);
  second->w.set_grad(full({1}, 1e-4, {.dtype = DType::f16}));
  optimizer.step();
  CHECK(optimizer.master("second").item() == doctest::Approx(1.9999));
}

TEST_CASE("a thousand small steps move a master that 16 bits alone would leave where it is") {
  for (const bool masters : {true, false}) {
    auto module = std::make_shared<Single>(1);
    Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});
    cast_model(Model(module), optimizer, {.masters = masters});
    for (int step = 0; step < 1000; ++step) {
      module->w.set_grad(full({1}, -2e-4, {.dtype = DType::f16}));
      optimizer.step();
    }
    CHECK(module->w.item() == doctest::Approx(masters ? 1.2 : 1).epsilon(1e-3));
  }
}

TEST_CASE("weights loaded after a cast become the masters' values at the next step") {
  auto module = std::make_shared<Single>(1);
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});
  cast_model(Model(module), optimizer, {});
  Model(module).load_state_dict({{"w", full({1}, 3)}});
  module->w.set_grad(full({1}, 0.5, {.dtype = DType::f16}));
  optimizer.step();
  CHECK(optimizer.master("w").item() == 2.5);
  CHECK(module->w.item() == 2.5);
}

TEST_CASE("widened gradients are f32, so that small ones survive being unscaled") {
  auto module = std::make_shared<Single>(1);
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});
  cast_model(Model(module), optimizer, {});
  module->w.set_grad(full({1}, 0.25, {.dtype = DType::f16}));
  widen_gradients(optimizer);
  const Tensor found = unscale_gradients(optimizer, scalar(std::ldexp(1.0, -32)));
  CHECK(module->w.grad().dtype() == DType::f32);
  CHECK(module->w.grad().item() == std::ldexp(1.0, -34));
  CHECK(found.item() == 0);
  module->w.set_grad(full({1}, INFINITY, {.dtype = DType::f16}));
  CHECK(find_non_finite(optimizer).item() == 1);
  CHECK(module->w.grad().dtype() == DType::f16);
}

TEST_CASE("saved masters come back bit for bit") {
  auto run = [](int steps, const OptimizerState* state) {
    auto module = std::make_shared<Single>(0.1);
    Optimizer optimizer = AdamW(Model(module).parameters(), {.lr = 1e-4});
    cast_model(Model(module), optimizer, {});
    if (state) optimizer.load_state_dict(*state);
    for (int step = 0; step < steps; ++step) {
      module->w.set_grad(full({1}, 1 + step % 3, {.dtype = DType::f16}));
      optimizer.step();
    }
    return optimizer;
  };
  const OptimizerState half = run(6, nullptr).state_dict();
  CHECK(run(6, &half).master("w").item() == run(12, nullptr).master("w").item());
}
