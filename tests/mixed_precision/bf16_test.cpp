// bf16's two styles: what is cast, what a step updates, and which options are compatible.
#include "kernels/arguments/multi_tensor.h"
#include "mixed_precision/strategies/bf16.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "tests/capture_part.h"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::Weight;

namespace {

struct Training {
  BF16 precision;
  std::shared_ptr<Weight> module = std::make_shared<Weight>(ones({4}));
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});

  explicit Training(BF16Options options) : precision(options) {
    precision.prepare(module, optimizer);
  }
  // Steps with a gradient, as in a Booster.
  void step(double gradient) {
    optimizer.zero_grad();
    backward(sum(cast(Model(module)(precision.cast_input(full({4}, gradient))), DType::f32)));
    const Verdict verdict = precision.inspect(optimizer);
    const auto* found = verdict.found_inf.defined() ? verdict.found_inf.data() : nullptr;
    optimizer.step({.found_inf = static_cast<const float*>(found)});
  }
  std::vector<double> values() const { return module->w.to_vector<double>(); }
};

const BF16Options bare = {.style = "cast", .master_weights = false};

}  // namespace

TEST_CASE("a thousand updates of 1e-3: masters and Kahan arrive, nearest stays") {
  Training masters({.style = "cast"}), nearest(bare);
  BF16Options options = bare;
  options.update = "kahan";
  Training kahan(options);
  for (int i = 0; i < 1000; ++i)
    for (Training* training : {&masters, &nearest, &kahan}) training->step(-1e-3);
  for (double x : masters.optimizer.master("w").to_vector<double>())
    CHECK(std::abs(x - 2) < 1e-3);  // the gradient itself is rounded to bf16
  CHECK(masters.values() == std::vector<double>(4, 2));
  CHECK(nearest.values() == std::vector<double>(4, 1));
  CHECK(kahan.values() == std::vector<double>(4, 2));
  const auto c = kahan.optimizer.state_dict().tensors.at("w.compensation");
  CHECK(c.to_vector<double>() == std::vector<double>(4, -0.003143310546875));
}

TEST_CASE("autocast keeps f32 parameters and a policy; cast converts all but batch norm") {
  const Model model = Sequential{Conv2d(1, 2, {3, 3}), BatchNorm2d(2), ReLU()};
  SGD optimizer(model.parameters(), {.lr = 0.1});
  BF16 autocast, cast({.style = "cast"});
  autocast.prepare(model, optimizer);
  for (const auto& parameter : model.parameters()) CHECK(parameter.tensor.dtype() == DType::f32);
  CHECK(autocast.policy({}) != nullptr);
  CHECK(autocast.cast_input(ones({2})).dtype() == DType::f32);
  cast.prepare(model, optimizer);
  CHECK(cast.policy({}) == nullptr);
  CHECK(cast.cast_input(ones({2})).dtype() == DType::bf16);
  CHECK(cast.cast_input(ones({2}, {DType::i64})).dtype() == DType::i64);
  for (const auto& [name, tensor] : model.state_dict()) {
    CAPTURE_PART(name);
    if (is_floating(tensor.dtype()))
      CHECK(tensor.dtype() == (name[0] == '0' ? DType::bf16 : DType::f32));
  }
  CHECK(optimizer.master("0.weight").defined());
  CHECK(!optimizer.master("1.weight").defined());
}

TEST_CASE("a step whose gradients are not finite changes nothing, unless it is not looked at") {
  Training looks({.style = "cast"}), blind({.style = "cast", .skip_non_finite = false});
  for (Training* training : {&looks, &blind}) training->step(INFINITY);
  CHECK(looks.values() == std::vector<double>(4, 1));
  CHECK(blind.values() == std::vector<double>(4, -INFINITY));
}

TEST_CASE("options that do not go together are refused") {
  const auto refused = [](BF16Options options, const char* message) {
    CHECK_THROWS_WITH_AS(BF16{options}, doctest::Contains(message), Error);
  };
  refused({.style = "Cast"}, "style: unknown style; got Cast");
  refused({.style = "cast", .master_weights = false, .update = "kahn"}, "kahan");
  refused({.master_weights = false}, "needs style cast");
  refused({.style = "cast", .update = "stochastic"}, "masters lose no update");
  refused({.seed = -1}, "seed is out of range");
}
