// fp16_paddle: levels, lists, options and the scaler, with the rules of PaddlePaddle 3.3.
#include "kernels/arguments/multi_tensor.h"
#include "mixed_precision/strategies/fp16_paddle.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "core/tensor/tensor.h"
#include "tests/golden_folder.h"
#include "tests/mixed_precision/dtype_of.h"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

using namespace booster;
using booster::testing::dtype_of;
using booster::testing::Weight;

namespace {

using Paddle = FP16Paddle;

Tensor halves(DType dtype) { return full({2, 2}, 0.5, {.dtype = dtype}); }

// A step as in a Booster, without ranks.
struct PaddleTraining {
  Paddle precision;
  std::shared_ptr<Weight> module = std::make_shared<Weight>(ones({2}));
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});

  explicit PaddleTraining(FP16PaddleOptions options) : precision(options) {
    precision.prepare(module, optimizer);
  }
  bool step(double gradient) {
    optimizer.zero_grad();
    const LossPass pass = precision.begin_loss({.optimizers = optimizer});
    const Tensor loss = sum(cast(Model(module)(full({2}, gradient)), DType::f32));
    backward(pass.scale ? pass.scale(loss) : loss);
    const Verdict verdict = precision.inspect(optimizer);
    const auto on_device = [](const Tensor& t) {
      return t.defined() ? static_cast<const float*>(t.data()) : nullptr;
    };
    optimizer.step({.found_inf = on_device(verdict.found_inf),
                    .inverse_scale = on_device(verdict.inverse_scale)});
    precision.update(verdict);
    return verdict.found_inf.defined() && verdict.found_inf.item() != 0;
  }
  double value() const {
    const Tensor master = optimizer.master("w");
    return (master.defined() ? master : module->w).to_vector<double>()[0];
  }
};

Model normalised() {
  return Sequential{Linear(4, 4), LayerNorm(4), Linear(4, 2), Sequential{Linear(2, 2), ReLU()}};
}

Model prepared(FP16PaddleOptions options, Model model = normalised()) {
  SGD optimizer(model.parameters(), {.lr = 0.1});
  Paddle precision(options);
  precision.check_fits(model);
  precision.prepare(model, optimizer);
  return model;
}

void refused(const FP16PaddleOptions& options, const char* message) {
  CHECK_THROWS_WITH_AS(Paddle{options}, doctest::Contains(message), Error);
}

}  // namespace

TEST_CASE("each interface of Paddle has its own scaler numbers") {
  const auto numbers = [](const FP16PaddleOptions& options) {
    const LossScalePolicy s = resolved(options).scaler;
    return std::vector<double>{
        s.init, s.growth, s.backoff, double(s.growth_interval), double(s.hysteresis), s.minimum};
  };
  CHECK(numbers({}) == std::vector<double>{65536, 2, 0.5, 2000, 1, 0});
  CHECK(numbers({.use_pure_fp16 = true}) == std::vector<double>{32768, 2, 0.8, 1000, 2, 1});
  CHECK(numbers({.amp_configs = FleetAmpConfigs{}}) ==
        std::vector<double>{32768, 2, 0.8, 1000, 2, 1});
  CHECK(numbers({.use_pure_fp16 = true, .init_loss_scaling = 128, .decr_ratio = 0.5}) ==
        std::vector<double>{128, 2, 0.5, 1000, 2, 1});
}

TEST_CASE("the interfaces resolve to levels, masters and guards as Paddle's do") {
  const PaddleSettings plain = resolved({.level = "O2"});
  CHECK(plain.masters);
  CHECK(plain.lists.use_promote);
  CHECK(!plain.guard);
  const PaddleSettings pure = resolved({.use_pure_fp16 = true});
  CHECK(pure.level == PaddleLevel::O2);
  CHECK(!pure.masters);
  CHECK(!pure.lists.use_promote);
  CHECK(pure.guard);
  const PaddleSettings fleet = resolved({.amp_configs = FleetAmpConfigs{.use_pure_bf16 = true}});
  CHECK(fleet.level == PaddleLevel::O2);
  CHECK(fleet.lower == DType::bf16);
  CHECK(!fleet.scales);
  CHECK(resolved({.amp_configs = FleetAmpConfigs{}}).level == PaddleLevel::O1);
  CHECK(!resolved({.dtype = "bfloat16"}).scales);
  CHECK(resolved({.dtype = "bfloat16", .use_dynamic_loss_scaling = false}).scales);
  CHECK(!resolved({.level = "o0"}).scales);
}

TEST_CASE("options that make no sense are refused") {
  refused({.level = "O3"}, "level: unknown level; got O3");
  refused({.dtype = "fp16"}, "dtype: unknown dtype; got fp16");
  refused({.save_dtype = "int8"}, "save_dtype");
  refused({.init_loss_scaling = 0}, "init_loss_scaling must be > 0");
  refused({.init_loss_scaling = INFINITY}, "init_loss_scaling");
  refused({.incr_ratio = 1}, "incr_ratio must be > 1");
  refused({.decr_ratio = 1}, "decr_ratio must be in (0, 1)");
  refused({.incr_every_n_steps = -1}, "incr_every_n_steps");
  refused({.decr_every_n_nan_or_inf = -1}, "decr_every_n_nan_or_inf");
  refused({.level = "OD", .use_pure_fp16 = true},
          "use_pure_fp16 = true means level O2; got level OD");
  refused({.level = "O2", .amp_configs = FleetAmpConfigs{}},
          "level is given together with amp_configs");
  refused({.incr_ratio = 2, .amp_configs = FleetAmpConfigs{}}, "incr_ratio is given together with");
  refused({.amp_configs = FleetAmpConfigs{.decr_ratio = 2}}, "decr_ratio must be in (0, 1)");
  refused({.custom_white_list = {"exp"}, .custom_black_list = {"exp"}}, "exp");
}

TEST_CASE("settings are told once") {
  Paddle fleet({.amp_configs = FleetAmpConfigs{.custom_white_list = {"exp"}}});
  const auto lines = fleet.take_notes();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "fp16_paddle: level O1, dtype float16, custom_white_list [exp], custom_black_list [], "
        "custom_black_varnames [], use_promote false, use_fp16_guard false, master_weight false, "
        "master_grad false, init_loss_scaling 32768, use_dynamic_loss_scaling true, incr_ratio 2, "
        "incr_every_n_steps 1000, decr_ratio 0.8, decr_every_n_nan_or_inf 2, smallest scale 1");
  CHECK(fleet.take_notes().empty());
}

TEST_CASE("names on Paddle's own lists are taken though no operation asks for them, and told") {
  Paddle named({.custom_white_list = {"gelu"}, .custom_black_list = {"matmul", "pnorm"}});
  const auto lines = named.take_notes();
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].find("matmul in a custom list has no effect") != std::string::npos);
  CHECK(lines[2].find("pnorm") != std::string::npos);
  CHECK((*named.policy({}))[Op::matmul] == OpClass::lower_precision);
  CHECK_THROWS_AS(Paddle({.custom_white_list = {"matmull"}}), Error);
}

TEST_CASE("O2 converts the model but for normalisations and excluded layers") {
  const auto f16 = DType::f16, f32 = DType::f32;
  const Model plain = prepared({.level = "O2"});
  CHECK(dtype_of(plain, "0.weight") == f16);
  CHECK(dtype_of(plain, "1.weight") == f32);
  CHECK(dtype_of(prepared({.level = "O2", .dtype = "bfloat16"}), "1.weight") == DType::bf16);
  const Model by_name = prepared({.level = "O2", .excluded_layers = {"3"}});
  CHECK(dtype_of(by_name, "3.0.weight") == f32);
  CHECK(dtype_of(by_name, "2.weight") == f16);
  CHECK(dtype_of(prepared({.level = "O2", .excluded_layers = {"Linear"}}), "0.weight") == f32);
  CHECK_THROWS_WITH_AS(prepared({.level = "O2", .excluded_layers = {"Liner"}}),
                       doctest::Contains("Linear"), Error);
  for (const char* level : {"O0", "O1", "OD"})
    CHECK(dtype_of(prepared({.level = level}), "0.weight") == f32);
  CHECK(dtype_of(prepared({.use_pure_fp16 = true}), "0.weight") == f32);  // the guard is on
}

TEST_CASE("ops run by level, and those that take a black variable in f32") {
  PaddleTraining o1({.custom_black_varnames = {"w"}});
  {
    const PolicyScope scope(o1.precision.policy({}));
    CHECK(matmul(halves(DType::f32), halves(DType::f32)).dtype() == DType::f16);
    CHECK((halves(DType::f16) + halves(DType::f32)).dtype() == DType::f32);
    CHECK(softmax(halves(DType::f16), -1).dtype() == DType::f32);
    CHECK((full({2}, 1, {DType::f16}) * o1.module->w).dtype() == DType::f32);
  }
  PaddleTraining o2({.level = "O2", .custom_black_varnames = {"w"}});
  CHECK(o2.module->w.dtype() == DType::f16);
  {
    const PolicyScope scope(o2.precision.policy({}));
    CHECK(softmax(halves(DType::f16), -1).dtype() == DType::f16);
    CHECK((full({2}, 1, {DType::f16}) * o2.module->w).dtype() == DType::f32);
    CHECK((full({2}, 1, {DType::f16}) * full({2}, 1, {DType::f16})).dtype() == DType::f16);
  }
  CHECK_THROWS_WITH_AS(PaddleTraining({.custom_black_varnames = {"v"}}),
                       doctest::Contains("has that name; got v"), Error);
}

TEST_CASE("a layer's name keeps its ops, and those of the layers in it, in f32") {
  const auto runs_in = [](const char* name, int layer) {
    const Model model = normalised();
    SGD optimizer(model.parameters(), {.lr = 0.1});
    Paddle paddle({.level = "O2", .dtype = "bfloat16", .custom_black_varnames = {name}});
    paddle.prepare(model, optimizer);
    const PolicyScope scope(paddle.policy({}));
    const auto modules = model->named_modules();
    for (const auto& [path, module] : modules)
      if (path == std::to_string(layer)) return (*module)(full({1, layer < 3 ? 4 : 2}, 1)).dtype();
    return DType::i64;
  };
  CHECK(runs_in("0", 0) == DType::f32);
  CHECK(runs_in("0", 2) == DType::bf16);
  CHECK(runs_in("1", 1) == DType::f32);
  CHECK(runs_in("3", 3) == DType::f32);
  const auto refused_name = [](const char* name, const char* message) {
    CHECK_THROWS_WITH_AS(prepared({.custom_black_varnames = {name}}), doctest::Contains(message),
                         Error);
  };
  refused_name("3.1", "layer with any, has that name; got 3.1");  // ReLU has no parameters
  refused_name("2.wieght", "did you mean 2.weight?");
}

TEST_CASE("with the guard on ops are f32 outside of it and 16-bit inside") {
  PaddleTraining guarded({.use_pure_fp16 = true});
  const PolicyScope scope(guarded.precision.policy({}));
  CHECK(matmul(halves(DType::f16), halves(DType::f16)).dtype() == DType::f32);
  {
    const FP16Guard guard;
    CHECK(matmul(halves(DType::f32), halves(DType::f32)).dtype() == DType::f16);
    CHECK(relu(halves(DType::f32)).dtype() == DType::f16);
  }
  CHECK(relu(halves(DType::f16)).dtype() == DType::f32);
  PaddleTraining o1({});
  const PolicyScope other(o1.precision.policy({}));
  const FP16Guard no_effect;
  CHECK(relu(halves(DType::f32)).dtype() == DType::f32);
}

TEST_CASE("a gradient of 1e-8 survives with master_grad alone") {
  const auto change = [](bool master_grad) {
    PaddleTraining training({.level = "O2", .master_grad = master_grad});
    {
      const NoGradGuard no_grad;
      training.module->w.detach().fill_(0);
    }
    training.step(1e-8);  // 65536 times that is 6.55e-4 in f16
    return -training.value();
  };
  CHECK(change(false) == 0);
  CHECK(change(true) == doctest::Approx(9.997e-9).epsilon(1e-3));
}

TEST_CASE("gradients of several passes add up in f32 with master_grad") {
  const auto gradient = [](bool master_grad) {
    PaddleTraining training({.level = "O2", .master_grad = master_grad, .init_loss_scaling = 1.0});
    for (double part : {2048.0, 1.0}) {
      backward(training.precision.begin_loss({.optimizers = training.optimizer})
                   .scale(sum(cast(Model(training.module)(full({2}, part, {.dtype = DType::f16})),
                                   DType::f32))));
    }
    return training.module->w.grad();
  };
  CHECK(gradient(false).dtype() == DType::f16);
  CHECK(gradient(false).to_vector<double>()[0] == 2048);  // 2049 is not exact in f16
  CHECK(gradient(true).dtype() == DType::f32);
  CHECK(gradient(true).to_vector<double>()[0] == 2049);
}

TEST_CASE("counters go on where they were saved, under Paddle's names") {
  const FP16PaddleOptions options = {
      .init_loss_scaling = 1024, .incr_every_n_steps = 3, .decr_every_n_nan_or_inf = 2};
  PaddleTraining first(options), second(options);
  for (double g : {1.0, 1.0, double(INFINITY)}) first.step(g);
  const PrecisionNumbers state = first.precision.state();
  CHECK(state == PrecisionNumbers{{"scale", 1024},
                                  {"incr_ratio", 2},
                                  {"decr_ratio", 0.5},
                                  {"incr_every_n_steps", 3},
                                  {"decr_every_n_nan_or_inf", 2},
                                  {"incr_count", 0},
                                  {"decr_count", 1},
                                  {"use_dynamic_loss_scaling", 1}});
  second.precision.load(state);
  CHECK(second.step(INFINITY));
  CHECK(second.precision.state().at("scale") == 512);
  PrecisionNumbers lacking = state;
  lacking.erase("decr_count");
  CHECK_THROWS_WITH_AS(second.precision.load(lacking), "fp16_paddle: load: decr_count is missing",
                       Error);
  CHECK(Paddle({.dtype = "bfloat16"}).state().empty());
}

TEST_CASE("scales, counters and weights follow PaddlePaddle's own, step by step") {
  std::ifstream file(test::golden_folder() + "/mixed_precision/paddle_scaler.json");
  REQUIRE(file.good());
  const auto golden = nlohmann::json::parse(file);
  for (const auto& one : golden.at("cases")) {
    CAPTURE(one.dump());
    const auto& o = one.at("options");
    PaddleTraining training(
        {.init_loss_scaling = o.at("init_loss_scaling").get<double>(),
         .incr_ratio = o.at("incr_ratio").get<double>(),
         .decr_ratio = o.at("decr_ratio").get<double>(),
         .incr_every_n_steps = o.at("incr_every_n_steps").get<int64_t>(),
         .decr_every_n_nan_or_inf = o.at("decr_every_n_nan_or_inf").get<int64_t>(),
         .use_dynamic_loss_scaling = o.at("use_dynamic_loss_scaling").get<bool>()});
    {
      const NoGradGuard no_grad;
      training.module->w.detach().fill_(0);
    }
    size_t i = 0;
    for (const char letter : one.at("pattern").get<std::string>()) {
      training.step(letter == 'I' ? INFINITY : 1);
      CHECK(training.precision.state().at("scale") == one.at("scales").at(i).get<double>());
      CHECK(training.value() == doctest::Approx(one.at("values").at(i).get<double>()));
      ++i;
    }
    CHECK(training.precision.state().at("incr_count") == one.at("counts").at(0).get<double>());
    CHECK(training.precision.state().at("decr_count") == one.at("counts").at(1).get<double>());
  }
}

TEST_CASE("a fixed scale stays and still skips bad steps") {
  PaddleTraining training({.init_loss_scaling = 1024, .use_dynamic_loss_scaling = false});
  CHECK(!training.step(1));
  CHECK(training.step(INFINITY));
  CHECK(training.value() == 0);
  CHECK(training.precision.state().at("scale") == 1024);
}
