// Apex's levels, properties and scale_loss, with the semantics of apex.amp (NVIDIA Apex e13873de).
#include "mixed_precision/apex/apex_amp.h"
#include "mixed_precision/strategies/fp16_apex.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/optim/clip.h"
#include "core/optim/optimizers.h"
#include "mixed_precision/apex/apex_properties.h"
#include "mixed_precision/scaling/scaled_step.h"
#include "tests/mixed_precision/dtype_of.h"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::dtype_of;
using booster::testing::Weight;

namespace {

// A custom loop with Apex and a loss with any gradient, including infinite ones. At the initial
// scale, 65536, gradients above 0.99 overflow f16.
struct Loop {
  ApexAmp amp;
  std::shared_ptr<Weight> module = std::make_shared<Weight>(ones({1}));
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 0.5});

  explicit Loop(FP16ApexOptions options) : amp(std::move(options)) {
    amp.initialize({module}, {optimizer});
  }
  void lose(double gradient, ScaleLossOptions options = {}) {
    const Tensor loss = sum(cast(module->w, DType::f32) * gradient);
    amp.scale_loss(
        loss, {optimizer}, [](const Tensor& scaled) { backward(scaled); }, options);
  }
  bool step(double gradient) {
    optimizer.zero_grad();
    lose(gradient);
    const double before = value();
    amp.step(optimizer);
    return value() != before;
  }
  double value() const { return optimizer.master_parameters()[0].tensor.item(); }
  double scale(int id = 0) { return amp.scaler(id).get_scale(); }
};

std::string error_of(FP16ApexOptions options) {
  try {
    resolve(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Model net() { return Sequential{Conv2d(1, 2, 1), BatchNorm2d(2), Flatten(), Linear(8, 2)}; }

}  // namespace

TEST_CASE("each level has its own defaults") {
  using Flag = std::optional<bool>;
  using Type = std::optional<DType>;
  const auto check = [](const char* level, Type cast, bool patch, Flag keep, Flag masters,
                        bool dynamic) {
    CAPTURE(level);
    const ApexProperties p = resolve({.opt_level = level});
    CHECK(p.cast_model_type == cast);
    CHECK(p.patch_torch_functions == patch);
    CHECK(p.keep_batchnorm_fp32 == keep);
    CHECK(p.master_weights == masters);
    CHECK(p.loss_scale.dynamic == dynamic);
    CHECK(p.loss_scale.init == (dynamic ? 65536 : 1));
    CHECK(p.loss_scale.maximum == 0x1p24);
  };
  check("O0", DType::f32, false, {}, false, false);
  check("O1", {}, true, {}, {}, true);
  check("O2", DType::f16, false, true, true, true);
  check("O3", DType::f16, false, false, false, false);
  CHECK(FP16ApexOptions{}.opt_level == "O1");
}

TEST_CASE("legal overrides take effect, as flags, numbers or text") {
  CHECK(resolve({.opt_level = "O2", .keep_batchnorm_fp32 = "False"}).keep_batchnorm_fp32 == false);
  CHECK(resolve({.opt_level = "O3", .keep_batchnorm_fp32 = true}).keep_batchnorm_fp32 == true);
  CHECK(resolve({.opt_level = "O0", .keep_batchnorm_fp32 = "True"}).keep_batchnorm_fp32 == true);
  CHECK(resolve({.opt_level = "O3", .master_weights = true}).has_masters());
  CHECK_FALSE(resolve({.opt_level = "O2", .master_weights = false}).has_masters());
  CHECK_FALSE(resolve({.opt_level = "O1", .patch_torch_functions = false}).patch_torch_functions);
  CHECK_FALSE(resolve({.opt_level = "O2", .cast_model_type = false}).cast_model_type);
  CHECK_FALSE(resolve({.opt_level = "O1", .cast_model_type = false}).cast_model_type);
  CHECK(resolve({.opt_level = "O1", .cast_model_type = "fp32"}).cast_model_type == DType::f32);
  CHECK(resolve({.opt_level = "O2", .loss_scale = "128.0"}).loss_scale.init == 128);
  CHECK(resolve({.opt_level = "O2", .loss_scale = 128}).loss_scale.init == 128);
  CHECK(resolve({.opt_level = "O2", .loss_scale = " +1e3 "}).loss_scale.init == 1000);
  CHECK(resolve({.opt_level = "O3", .loss_scale = "dynamic"}).loss_scale.dynamic);
  CHECK(resolve({.opt_level = "O2", .max_loss_scale = 1024}).loss_scale.init == 1024);
}

TEST_CASE("illegal properties are errors that say what to use") {
  CHECK(error_of({.opt_level = "02"}) ==
        "fp16_apex: opt_level: unknown level; got 02, want one of O0, O1, O2, O3 (the letter O, "
        "not the number zero)");
  CHECK(error_of({.opt_level = "O1", .cast_model_type = "fp16"}).find("use O2 or O3") !=
        std::string::npos);
  CHECK(error_of({.opt_level = "O2", .patch_torch_functions = true}).find("only O1 accepts true") !=
        std::string::npos);
  for (const ApexValue& value : {ApexValue(true), ApexValue(false), ApexValue("True")}) {
    CHECK(error_of({.opt_level = "O1", .keep_batchnorm_fp32 = value}).find("leave it out") !=
          std::string::npos);
    CHECK(error_of({.opt_level = "O1", .master_weights = value}).find("leave it out") !=
          std::string::npos);
  }
  CHECK(error_of({.opt_level = "O2", .keep_batchnorm_fp32 = "true"}).find("want true, false") !=
        std::string::npos);
  CHECK(error_of({.opt_level = "O2", .keep_batchnorm_fp32 = 1}) != "");
  for (const ApexValue& scale : {ApexValue("fast"), ApexValue("nan"), ApexValue("inf"),
                                 ApexValue(0), ApexValue(-2), ApexValue("1x"), ApexValue("")})
    CHECK(error_of({.opt_level = "O2", .loss_scale = scale}).find("want dynamic or a finite") !=
          std::string::npos);
  CHECK(error_of({.num_losses = 0}) != "");
  CHECK(error_of({.verbosity = 3}) != "");
  CHECK(error_of({.min_loss_scale = 4, .max_loss_scale = 2}) != "");
}

TEST_CASE("the model is cast as the level says, and casts at its ends are differentiable") {
  const Tensor x = normal({3, 1, 2, 2});
  const auto run = [&](FP16ApexOptions options, DType weight, DType norm, DType output) {
    CAPTURE(options.opt_level);
    Model model = net();
    Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
    ApexAmp amp(options);
    amp.initialize({model}, {optimizer});
    CHECK(dtype_of(model, "0.weight") == weight);
    CHECK(dtype_of(model, "1.weight") == norm);
    CHECK(dtype_of(model, "1.running_mean") == norm);
    const Tensor y = amp.forward(model, x);
    CHECK(y.dtype() == output);
    backward(sum(cast(y, DType::f32)));
    CHECK(model.parameters()[0].tensor.grad().dtype() == weight);
    CHECK(optimizer.master("0.weight").defined() ==
          (weight == DType::f16 && amp.properties().has_masters()));
  };
  constexpr DType f16 = DType::f16, f32 = DType::f32;
  run({.opt_level = "O0"}, f32, f32, f32);
  run({.opt_level = "O1"}, f32, f32, f16);
  run({.opt_level = "O1", .cast_model_outputs = "fp32"}, f32, f32, f32);
  run({.opt_level = "O2"}, f16, f32, f32);
  run({.opt_level = "O2", .keep_batchnorm_fp32 = false}, f16, f16, f32);
  run({.opt_level = "O2", .cast_model_outputs = "fp16"}, f16, f32, f16);
  run({.opt_level = "O3"}, f16, f16, f32);
  run({.opt_level = "O3", .keep_batchnorm_fp32 = "True"}, f16, f32, f32);
  run({.opt_level = "O2", .cast_model_type = false}, f32, f32, f32);
  run({.enabled = false, .opt_level = "O2"}, f32, f32, f32);
}

TEST_CASE("models and optimizers that cannot be initialized are refused") {
  Model model = net();
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  CHECK_THROWS_WITH_AS(ApexAmp().initialize({model}, {optimizer, optimizer}),
                       doctest::Contains("occurs twice"), Error);
  ApexAmp amp;
  CHECK_THROWS_WITH_AS(amp.scale_loss(scalar(1), {optimizer}, [](const Tensor&) {}),
                       doctest::Contains("not initialized"), Error);
  amp.initialize({model}, {optimizer});
  CHECK_THROWS_AS(amp.initialize({model}, {optimizer}), Error);
  model->to(DType::f16);
  CHECK_THROWS_WITH_AS(ApexAmp().initialize({model}, {}),
                       doctest::Contains("already has 16-bit parameters"), Error);
}

TEST_CASE("the dynamic scale halves on overflow, skips that step, and grows after its window") {
  Loop loop({.opt_level = "O2"});
  CHECK(loop.step(0.5));
  CHECK_FALSE(loop.step(INFINITY));
  CHECK(loop.scale() == 32768);
  CHECK(loop.step(0.5));
  LossScalePolicy window = loop.amp.scaler(0).policy();
  window.growth_interval = 2;
  loop.amp.scaler(0).set_policy(window);
  CHECK(loop.step(0.5));
  CHECK(loop.scale() == 65536);
}

TEST_CASE("a static scale never skips: infinities reach the weights") {
  Loop loop({.opt_level = "O2", .loss_scale = 128});
  loop.step(1);
  CHECK(loop.value() == 0.5);
  loop.step(INFINITY);
  CHECK(loop.value() == -INFINITY);
  CHECK(loop.scale() == 128);
  CHECK(loop.amp.state().at("loss_scaler0.unskipped") == 2);
}

TEST_CASE("limits hold the scale, and a large limit clamps the first one") {
  Loop low({.opt_level = "O2", .min_loss_scale = 16384});
  for (int i = 0; i < 4; ++i) low.step(INFINITY);
  CHECK(low.scale() == 16384);
  CHECK(Loop({.opt_level = "O2", .max_loss_scale = 1024}).scale() == 1024);
}

TEST_CASE("two losses on one scaler: every pass moves it, one overflow skips the iteration") {
  Loop loop({.opt_level = "O2"});
  LossScalePolicy window = loop.amp.scaler(0).policy();
  window.growth_interval = 4;
  loop.amp.scaler(0).set_policy(window);
  const double inf = INFINITY;
  const double gradients[][2] = {{0.5, 0.5}, {0.5, inf}, {inf, 0.5}, {inf, inf}};
  const double scales[][2] = {{65536, 65536}, {65536, 32768}, {16384, 16384}, {8192, 4096}};
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    const double before = loop.value();
    loop.optimizer.zero_grad();
    for (int pass = 0; pass < 2; ++pass) {
      loop.lose(gradients[i][pass]);
      CHECK(loop.scale() == scales[i][pass]);
    }
    loop.amp.step(loop.optimizer);
    CHECK((loop.value() == before) == (i > 0));
  }
}

TEST_CASE("losses with scalers of their own add true gradients") {
  Loop loop({.opt_level = "O2", .num_losses = 2});
  loop.amp.scaler(1).load({.scale = 1024});
  loop.lose(0.25, {.loss_id = 0});
  loop.lose(4, {.loss_id = 1});
  CHECK(loop.module->w.grad().dtype() == DType::f32);
  CHECK(loop.module->w.grad().item() == 4.25);
  CHECK(loop.amp.master_params(loop.optimizer)[0].tensor.grad().item() == 4.25);
  loop.lose(INFINITY, {.loss_id = 1});
  CHECK(loop.scale(0) == 65536);
  CHECK(loop.scale(1) == 512);
  CHECK_THROWS_WITH_AS(loop.lose(1, {.loss_id = 2}), doctest::Contains("want 0 to 1"), Error);
}

TEST_CASE("delay_unscale leaves scaled gradients, which the last pass unscales together") {
  Loop loop({.opt_level = "O2"});
  loop.lose(0.25, {.delay_unscale = true});
  CHECK(loop.module->w.grad().dtype() == DType::f16);
  CHECK(loop.module->w.grad().item() == 0.25 * 65536);
  CHECK_THROWS_WITH_AS(loop.amp.step(loop.optimizer), doctest::Contains("still scaled"), Error);
  loop.lose(0.5);
  CHECK(loop.module->w.grad().item() == 0.75);
  CHECK(loop.amp.state().at("loss_scaler0.unskipped") == 1);
}

TEST_CASE("delay_overflow_check neither moves the scale nor skips") {
  Loop loop({.opt_level = "O2"});
  loop.lose(INFINITY, {.delay_overflow_check = true});
  CHECK(loop.scale() == 65536);
  CHECK(loop.amp.state().at("loss_scaler0.unskipped") == 0);
  loop.amp.step(loop.optimizer);
  CHECK(loop.value() == -INFINITY);
}

TEST_CASE("a skip is consumed by the next step of each optimizer that was named") {
  auto a = std::make_shared<Weight>(ones({1})), b = std::make_shared<Weight>(ones({1}));
  Optimizer opt_a = SGD(Model(a).parameters(), {.lr = 1}),
            opt_b = SGD(Model(b).parameters(), {.lr = 1});
  ApexAmp amp({.opt_level = "O2"});
  amp.initialize({a, b}, {opt_a, opt_b});
  const auto lose = [&](const Tensor& loss, std::vector<Optimizer> optimizers) {
    amp.scale_loss(loss, optimizers, [](const Tensor& scaled) { backward(scaled); });
  };
  const auto f32 = [](const Tensor& x) { return cast(x, DType::f32); };
  lose(sum(f32(a->w) * INFINITY + f32(b->w) * 0.25), {opt_a, opt_b});
  amp.step(opt_a);  // both skip, although b's own gradient was finite
  amp.step(opt_b);
  CHECK(a->w.item() == 1);
  CHECK(b->w.item() == 1);
  lose(sum(f32(a->w) * 0.25 + f32(b->w) * 0.25), {opt_a, opt_b});
  amp.step(opt_a);
  amp.step(opt_b);
  CHECK(a->w.item() == 0.75);
  CHECK(b->w.item() == 0.75);
  Optimizer stranger = SGD(Model(a).parameters(), {.lr = 1});
  CHECK_THROWS_WITH_AS(amp.step(stranger),
                       doctest::Contains("want one that was passed to initialize"), Error);
}

TEST_CASE("clipping master_params clips what the step uses") {
  Loop loop({.opt_level = "O2"});
  loop.lose(0.5);
  CHECK(clip_grad_norm_(loop.amp.master_params(loop.optimizer), 0.125) == 0.5);
  loop.amp.step(loop.optimizer);
  CHECK(loop.value() == doctest::Approx(1 - 0.5 * 0.125));
  CHECK_FALSE(loop.module->w.grad().defined());  // masters' gradients are freed after the step
}

TEST_CASE("state holds every scaler's counters, and loading it is all or nothing") {
  Loop first({.opt_level = "O2", .num_losses = 2});
  first.step(0.5);
  first.lose(INFINITY, {.loss_id = 1});
  const PrecisionNumbers state = first.amp.state();
  CHECK(state == PrecisionNumbers{{"loss_scaler0.loss_scale", 65536},
                                  {"loss_scaler0.unskipped", 1},
                                  {"loss_scaler1.loss_scale", 32768},
                                  {"loss_scaler1.unskipped", 0}});
  Loop second({.opt_level = "O2", .num_losses = 2});
  second.amp.load(state);
  CHECK(second.amp.state() == state);
  Loop other({.opt_level = "O2", .num_losses = 3});
  CHECK_THROWS_WITH_AS(other.amp.load(state), doctest::Contains("loss_scaler2.loss_scale"), Error);
  CHECK(other.amp.state().at("loss_scaler1.loss_scale") == 65536);
}

TEST_CASE("registered functions change O1's lists, and are checked by name") {
  ApexAmp amp;
  amp.register_half_function("relu");
  amp.register_float_function("linear");
  CHECK_THROWS_AS(amp.register_half_function("rleu"), Error);
  Model model = Sequential{ReLU(), Linear(2, 2)};
  amp.initialize({model}, {});
  const OpPolicy& policy = *amp.policy({});
  CHECK(policy[Op::relu] == OpClass::lower_precision);
  CHECK(policy[Op::linear] == OpClass::fp32);
  CHECK(policy[Op::matmul] == OpClass::lower_precision);
  CHECK_THROWS_WITH_AS(amp.register_promote_function("add"), doctest::Contains("before initialize"),
                       Error);
}

TEST_CASE("function wrappers and scopes cast while an O1 policy is in force only") {
  const auto dtype_seen = [](const Tensor& x, double) { return x.dtype(); };
  const Tensor x = ones({2, 2});
  CHECK(half_function(dtype_seen)(x, 1.0) == DType::f32);
  const ApexAmp amp;
  const PolicyScope o1(amp.policy({}));
  CHECK(half_function(dtype_seen)(x, 1.0) == DType::f16);
  CHECK(float_function(dtype_seen)(cast(x, DType::f16), 1.0) == DType::f32);
  const auto both = promote_function([](const Tensor& a, const Tensor& b) {
    return a.dtype() == DType::f32 && b.dtype() == DType::f32;
  });
  CHECK(both(x, cast(x, DType::f16)));
  CHECK(matmul(x, x).dtype() == DType::f16);
  const ApexFunctionScope in_f32(OpClass::fp32);
  CHECK(matmul(x, cast(x, DType::f16)).dtype() == DType::f32);
}

TEST_CASE("verbosity 2 tells each cast of O1 once a region, in Apex's words") {
  std::vector<std::string> lines;
  ApexAmp amp({.verbosity = 2});
  amp.set_listener([&](const std::string& line) { lines.push_back(line); });
  Model model = Sequential{Linear(2, 2)};
  const Tensor x = ones({1, 2});
  {
    const PolicyScope o1(amp.policy({}));
    softmax(model(cast(model(x), DType::f32)), -1);
  }
  CHECK(lines == std::vector<std::string>{"Float->Half (linear)", "Float->Half (linear)",
                                          "Float->Half (linear)", "Float->Half (linear)",
                                          "Half->Float (softmax)"});
}

TEST_CASE("verbosity 2 tells of an overflow with the next loss, in Apex's words") {
  std::vector<std::string> lines;
  Loop loop({.opt_level = "O2", .verbosity = 2});
  loop.amp.set_listener([&](const std::string& line) { lines.push_back(line); });
  loop.step(INFINITY);
  CHECK(lines.empty());
  loop.step(0.5);
  loop.step(0.5);
  CHECK(lines == std::vector<std::string>{
                     "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to "
                     "32768.0"});
}

TEST_CASE("verbosity decides whether the resolved properties are told") {
  Model model = net();
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  FP16Apex loud({.opt_level = "O0"}), silent({.opt_level = "O0", .verbosity = 0});
  loud.prepare(model, optimizer);
  silent.prepare(model, optimizer);
  const auto lines = loud.take_notes();
  CHECK(lines.at(1) == "fp16_apex: opt_level             : O0");
  CHECK(lines.at(4) == "fp16_apex: keep_batchnorm_fp32   : None");
  CHECK(loud.take_notes().empty());
  CHECK(silent.take_notes().empty());
}
