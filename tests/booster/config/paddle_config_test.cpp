// fp16_paddle in a config: Fleet's amp_configs unchanged, its defaults, and its errors.
#include "booster/booster.h"
#include "booster/config/config_layout.h"
#include "mixed_precision/strategies/fp16_paddle.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/checkpoint_contents.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::test;

namespace {

Config config_of(const std::string& options) {
  return Config::from_text(
      R"({"booster": {"mixed_precision": {"name": "fp16_paddle")" + options + "}}}", "test.json");
}

PaddleSettings settings_of(const std::string& options) {
  const auto made =
      precision_registry().make(config_of(options).options("booster.mixed_precision"));
  return dynamic_cast<FP16Paddle&>(*made).settings();
}

void refused(const std::string& options, const std::string& message) {
  CHECK_THROWS_WITH_AS(config_of(options), doctest::Contains(message.c_str()), Error);
}

}  // namespace

TEST_CASE("amp_configs as Paddle's documents write it is accepted") {
  const PaddleSettings s = settings_of(R"(, "amp_configs": {
        "init_loss_scaling": 32768,
        "decr_every_n_nan_or_inf": 2,
        "incr_every_n_steps": 1000,
        "incr_ratio": 2.0,
        "use_dynamic_loss_scaling": true,
        "decr_ratio": 0.5,
        "custom_white_list": [],
        "custom_black_list": []
  })");
  CHECK(s.level == PaddleLevel::O1);
  CHECK(s.scaler.init == 32768);
  CHECK(s.scaler.backoff == 0.5);
  CHECK(s.scaler.hysteresis == 2);
  CHECK(s.scaler.minimum == 1);
}

TEST_CASE("amp_configs has Fleet's defaults, the plain options GradScaler's") {
  const PaddleSettings fleet = settings_of(R"(, "amp_configs": {})");
  CHECK(fleet.scaler.init == 32768);
  CHECK(fleet.scaler.backoff == 0.8);
  CHECK(fleet.scaler.growth_interval == 1000);
  const PaddleSettings plain = settings_of("");
  CHECK(plain.scaler.init == 65536);
  CHECK(plain.scaler.backoff == 0.5);
  CHECK(plain.scaler.growth_interval == 2000);
  CHECK(settings_of(R"(, "amp_configs": null)").scaler.init == 65536);
}

TEST_CASE("every option reaches the strategy") {
  const PaddleSettings s = settings_of(
      R"(, "level": "O2", "dtype": "bfloat16", "custom_white_list": ["exp"],
         "custom_black_list": ["relu"], "custom_black_varnames": ["w"], "use_promote": false,
         "master_weight": false, "master_grad": true, "excluded_layers": ["Linear"],
         "save_dtype": "float32", "use_fp16_guard": true, "init_loss_scaling": 8,
         "incr_ratio": 3, "decr_ratio": 0.25, "incr_every_n_steps": 4,
         "decr_every_n_nan_or_inf": 5, "use_dynamic_loss_scaling": false)");
  CHECK(s.level == PaddleLevel::O2);
  CHECK(s.lower == DType::bf16);
  CHECK(s.lists.white == std::vector<std::string>{"exp"});
  CHECK(s.lists.black == std::vector<std::string>{"relu"});
  CHECK(s.black_varnames == std::vector<std::string>{"w"});
  CHECK(!s.lists.use_promote);
  CHECK(!s.masters);
  CHECK(s.master_grad);
  CHECK(s.excluded_layers == std::vector<std::string>{"Linear"});
  CHECK(s.save_dtype == DType::f32);
  CHECK(s.guard);
  CHECK(s.scaler.init == 8);
  CHECK(s.scaler.growth == 3);
  CHECK(s.scaler.backoff == 0.25);
  CHECK(s.scaler.growth_interval == 4);
  CHECK(s.scaler.hysteresis == 5);
  CHECK(!s.scaler.dynamic);
  CHECK(settings_of(R"(, "use_pure_fp16": true)").scaler.backoff == 0.8);
}

TEST_CASE("what is wrong in amp_configs is named with its place") {
  refused(R"(, "amp_configs": {"incr_ration": 2})",
          "booster.mixed_precision.amp_configs.incr_ration: unknown key");
  refused(R"(, "amp_configs": {"incr_ration": 2})", "did you mean incr_ratio?");
  refused(R"(, "amp_configs": {"incr_ratio": "2"})", "want a number > 1");
  refused(R"(, "amp_configs": {"decr_ratio": 1})", "want a number in (0, 1)");
  refused(R"(, "amp_configs": {"use_pure_fp16": 1})", "want true or false");
  refused(R"(, "amp_configs": {"custom_white_list": "exp"})", "want a list of strings");
  refused(R"(, "amp_configs": {"custom_white_list": [1]})", "want a list of strings");
  refused(R"(, "amp_configs": {"init_loss_scaling": null})", "wrong type; got null");
  refused(R"(, "amp_configs": [])", "want an object, or null");
  refused(R"(, "amp_configs": {}, "decr_ratio": 0.5)",
          "decr_ratio is given together with amp_configs");
  refused(R"(, "save_dtype": "fp16")", "unknown name");
  refused(R"(, "master_weight": "yes")", "want true or false, or null");
}

TEST_CASE("save_dtype is what a checkpoint holds of the model; the resumed run is exact") {
  const auto run = [](const char* save_dtype) {
    manual_seed(3);
    Booster booster(
        {.mixed_precision = FP16PaddleMixedPrecision({.level = "O2", .save_dtype = save_dtype})});
    Model model = Sequential{Linear(4, 4), BatchNorm2d(4)};
    Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
    DataLoader loader(std::make_shared<TensorDataset>(ones({2, 4}), zeros({2}, {DType::i64})),
                      {.batch_size = 2, .workers = 0});
    return booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
  };
  for (const auto& [name, dtype] : {std::pair{"float64", DType::f64}, {"float16", DType::f16}}) {
    CAPTURE_PART(name);
    const TemporaryFolder folder;
    Boosted saved = run(name);
    for (const auto& [key, tensor] : saved.model.unwrap().state_dict())
      if (tensor.dtype() == DType::f32) tensor.detach().fill_(1.0 / 3);  // not exact in f16
    save_training(folder.path(), saved, {.step = 1});
    for (const auto& [key, tensor] : load_checkpoint(folder.path() / "step-000000001").model)
      if (is_floating(tensor.dtype())) CHECK(tensor.dtype() == dtype);
    Boosted resumed = run(name);
    for (const auto& parameter : resumed.model.unwrap().parameters())
      parameter.tensor.detach().fill_(9);
    REQUIRE(resume_training(folder.path(), resumed, [](const std::string&) {}));
    const auto a = saved.model.unwrap().state_dict(), b = resumed.model.unwrap().state_dict();
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].tensor.dtype() == b[i].tensor.dtype());
      CHECK(a[i].tensor.to_vector<double>() == b[i].tensor.to_vector<double>());
    }
  }
}
