#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "booster/config/overrides.h"
#include "booster/config/registry.h"
#include "examples/vit_caltech101/program_config.h"
#include "platform/json/json_document.h"
#include "platform/threads.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

using namespace booster;
using doctest::Contains;

namespace {

// Parses a config with the sections of the example.
Config config(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return Config::from_text(text, "c.json", overrides, example::program_config());
}

void refuses(std::string_view text, const char* part,
             const std::vector<std::string>& overrides = {}) {
  CHECK_THROWS_WITH_AS(config(text, overrides), Contains(part), Error);
}

}  // namespace

TEST_CASE("the documented config is valid and keeps its values") {
  const Config c = config(R"({
    "booster": { "plugin": {"name": "torch_ddp", "bucket_cap_mb": 25},
                 "mixed_precision": {"name": "fp16", "init_scale": 65536} },
    "device": "auto",
    "model": {"name": "vit_tiny_patch16_224", "num_classes": 101, "drop_rate": 0.1},
    "data": {"root": "$DATA", "batch_size": 32, "workers": 2, "on_bad_image": "skip"},
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "lr_scheduler": {"name": "linear_warmup", "warmup_steps": 50},
    "train": {"epochs": 2, "seed": 42, "accumulate": 1, "clip_grad_norm": 0, "log_every": 10,
              "output_dir": "out", "checkpoint_every": 500}
  })");
  CHECK(c.get<std::string>("booster.plugin.name") == "torch_ddp");
  CHECK(c.get<double>("booster.mixed_precision.init_scale") == 65536);
  CHECK(c.get<double>("booster.mixed_precision.growth_factor") == 2);
  CHECK(c.get<double>("optimizer.momentum") == 0.9);
  CHECK(c.get<int64_t>("train.checkpoint_every") == 500);
  CHECK(c.get<std::string>("device") == "auto");
  CHECK(c.options("lr_scheduler").get<int>("warmup_steps") == 50);
  CHECK(config(c.to_json().dump()).to_json() == c.to_json());
}

TEST_CASE("a list of texts takes texts alone") {
  const Config c = config(R"({"booster": {"mixed_precision": {"name": "fp8",
                              "exclude": ["head", "blocks.0"]}}})");
  using Names = std::vector<std::string>;
  CHECK(c.get<Names>("booster.mixed_precision.exclude") == Names{"head", "blocks.0"});
  refuses(R"({"booster": {"mixed_precision": {"name": "fp8", "exclude": ["head", 1]}}})",
          "want a list of strings");
  refuses(R"({"booster": {"mixed_precision": {"name": "fp8", "exclude": "head"}}})",
          "want a list of strings");
  refuses(R"({"booster": {"mixed_precision": {"name": "fp8", "format": "e5m2"}}})", "hybrid, e4m3");
}

TEST_CASE("an empty config holds every default") {
  const Config c = config("{}");
  CHECK(Config::from_text("{}").to_json() == Config().to_json());
  CHECK(c.get<std::string>("booster.plugin.name") == "single");
  CHECK(c.get<std::string>("booster.mixed_precision.name") == "fp32");
  CHECK(c.get<double>("optimizer.lr") == SGDOptions().lr);
  CHECK_FALSE(c.has("optimizer.betas"));
  CHECK_THROWS_WITH_AS(c.get<double>("optimizer.lrr"), Contains("did you mean lr?"), Error);
}

TEST_CASE("plugin and strategy may be given by name alone") {
  const Config c = config(R"({"booster": {"plugin": "torch_ddp", "mixed_precision": "bf16"}})");
  CHECK(c.get<double>("booster.plugin.bucket_cap_mb") == 25);
  CHECK(c.get<std::string>("booster.mixed_precision.name") == "bf16");
  refuses(R"({"optimizer": "sgd"})",
          "c.json:1:15: optimizer: wrong type; got \"sgd\", want an object");
}

TEST_CASE("a mistake is told with line, column, path, legal values and the nearest name") {
  refuses("{\n \"optimzer\": {}}",
          "c.json:2:2: optimzer: unknown key; got \"optimzer\"; want one of device, booster");
  refuses("{\n \"optimzer\": {}}", "(did you mean optimizer?)");
  refuses(R"({"train": {"epoch": 2}})", "c.json:1:12: train.epoch: unknown key");
  refuses(R"({"train": {"epoch": 2}})", "(did you mean epochs?)");
  refuses(R"({"train": {"epochs": "2"}})",
          "c.json:1:22: train.epochs: wrong type; got \"2\"; want a whole number in [1, 1");
  refuses(R"({"train": {"epochs": 1.5}})", "wrong type; got 1.5");
  refuses(R"({"train": {"epochs": 0}})", "out of range; got 0");
  refuses(R"({"train": {"epochs": true}})", "got true");
  refuses(R"({"train": {"epochs": null}})", "got null");
  refuses(R"({"train": {"epochs": [2]}})", "got a list");
  refuses(R"({"train": []})", "train: wrong type; got a list, want an object");
  refuses(R"({"booster": {"plugin": "torch_dpd"}})", "(did you mean torch_ddp?)");
  refuses(R"({"booster": {"plugin": 5}})", "want a name or an object");
  refuses(R"({"booster": {"mixed_precision": {"name": "fp16", "init_scal": 1}}})",
          "(did you mean init_scale?)");
  refuses(R"({"booster": {"mixed_precision": {"name": "bf16", "init_scale": 1}}})",
          "unknown key of bf16");
  refuses(R"({"data": {"on_bad_image": "ignore"}})", "want one of fail, skip");
  refuses(R"({"optimizer": {"lr": -1}})", "want a number >= 0");
  refuses(R"({"optimizer": {"name": "adam", "betas": [0.9]}})", "want a list of 2 numbers");
  refuses(R"({"optimizer": {"name": "adam", "betas": [0.9, 1]}})",
          "c.json:1:47: optimizer.betas: out of range; got 1");
  refuses("[]", "c.json:1:1: the config: wrong type; got a list");
  refuses("null", "want an object");
}

TEST_CASE("whole numbers may be written with an exponent, numbers without a point") {
  CHECK(config(R"({"lr_scheduler": {"name": "cosine", "total_steps": 1e4}})")
            .get<int64_t>("lr_scheduler.total_steps") == 10000);
  CHECK(config(R"({"optimizer": {"lr": 1}})").get<double>("optimizer.lr") == 1);
  refuses(R"({"train": {"max_steps": 1e300}})", "wrong type");
}

TEST_CASE("overrides win over the file, and the later over the earlier") {
  const char* text = R"({"optimizer": {"lr": 0.5}, "booster": {"mixed_precision": "fp16"}})";
  const Config c = config(text, {"optimizer.lr=2", "optimizer.lr=1e-3",
                                 "booster.mixed_precision.init_scale=8", "booster.plugin=torch_ddp",
                                 "train.output_dir=a=b", "lr_scheduler={\"name\": \"cosine\"}"});
  CHECK(c.get<double>("optimizer.lr") == 1e-3);
  CHECK(c.get<std::string>("booster.mixed_precision.name") == "fp16");
  CHECK(c.get<double>("booster.mixed_precision.init_scale") == 8);
  CHECK(c.get<std::string>("booster.plugin.name") == "torch_ddp");
  CHECK(c.get<std::string>("train.output_dir") == "a=b");
  CHECK(c.get<std::string>("lr_scheduler.name") == "cosine");
}

TEST_CASE("an override's path is as deep as a file may be, and 400,000 levels are refused") {
  const auto path_of = [](size_t levels) {
    std::string path = "a";
    for (size_t i = 1; i < levels; ++i) path += ".a";
    return path + "=1";
  };
  JsonValue root;
  root.kind = JsonKind::object;
  CHECK_THROWS_WITH_AS(apply_override(root, path_of(400'000)),
                       Contains("nested too deep; got 400000 levels, want at most 64"), Error);
  CHECK_THROWS_WITH_AS(apply_override(root, path_of(65)), Contains("nested too deep"), Error);
  CHECK(root.items.empty());
  apply_override(root, path_of(64));
  CHECK(root.to_json().flatten().begin().value() == 1);
}

TEST_CASE("an object takes a thousand keys from overrides, and an old one still changes then") {
  JsonValue root;
  root.kind = JsonKind::object;
  for (int i = 0; i < 1000; ++i) apply_override(root, fmt::format("k{}=1", i));
  CHECK_THROWS_WITH_AS(apply_override(root, "more=1"), Contains("--set more=1: too many keys"),
                       Error);
  CHECK(root.items.size() == 1000);
  apply_override(root, "k7=2");
  CHECK(root.find("k7")->scalar == 2);
}

TEST_CASE("a mistake in an override names the override") {
  refuses("{}", "--set train.epoch=2: train.epoch: unknown key", {"train.epoch=2"});
  refuses("{}", "--set optimizer.lr=fast: optimizer.lr: wrong type; got \"fast\"",
          {"optimizer.lr=fast"});
  refuses("{}", "--set optimizer.lr=NaN", {"optimizer.lr=NaN"});
  refuses("{}", "no value", {"train.epochs"});
  refuses("{}", "no key", {"=2"});
  refuses("{}", "empty key", {"train..epochs=2"});
  refuses("{}", "empty key", {"train.=2"});
  refuses("{}", "empty key", {".=2"});
  refuses("{}", "trian: unknown key", {"trian.epochs=2"});
  refuses("{}", "did you mean", {"devise=cpu"});
  refuses("{}", "train: wrong type; got 3, want an object", {"train=3", "train.epochs=2"});
}

TEST_CASE("only data.root names an environment variable, and only in front") {
  ::setenv("BOOSTER_TEST_ROOT", "/a/$HOME", 1);
  ::unsetenv("BOOSTER_TEST_UNSET");
  const auto root = [](const std::string& text) {
    return config(R"({"data": {"root": ")" + text + "\"}}")
        .options("data")
        .given<std::string>("root");
  };
  CHECK(root("$BOOSTER_TEST_ROOT") == "/a/$HOME");
  CHECK(root("$BOOSTER_TEST_ROOT/b") == "/a/$HOME/b");
  CHECK(root("/x/$BOOSTER_TEST_ROOT") == "/x/$BOOSTER_TEST_ROOT");
  refuses(R"({"data": {"root": "$BOOSTER_TEST_UNSET"}})",
          "data.root: environment variable is not set; got \"$BOOSTER_TEST_UNSET\"");
  refuses(R"({"data": {"root": "$BOOSTER_TEST_UNSET/b"}})",
          "want one that is set, a path, or only $DATA");
  ::unsetenv("DATA");
  CHECK(root("$DATA") == std::nullopt);
  refuses(R"({"data": {"root": "$DATA/b"}})", "environment variable is not set");
  refuses(R"({"data": {"root": ""}})", "data.root: empty path");
  refuses("{\"data\": {\"root\": \"$(id)\"}}", "want $NAME or $NAME/folder");
  refuses(R"({"data": {"root": "$"}})", "want $NAME");
  refuses(R"({"data": {"root": "${HOME}"}})", "want $NAME");
  refuses(R"({"data": {"root": "$1"}})", "want $NAME");
  refuses(R"({"train": {"output_dir": "$HOME/out"}})",
          "want a path, without environment variables");
  refuses(R"({"train": {"output_dir": ""}})", "bad path");
}

TEST_CASE("command line options are read strictly") {
  const TemporaryFolder folder;
  folder.write("c.json", R"({"train": {"epochs": 7}})");
  const std::string path = (folder / "c.json").string();
  const auto from = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return Config::from_args(static_cast<int>(arguments.size()), arguments.data(),
                             example::program_config());
  };
  CHECK(from({"--config", path.c_str(), "--set", "train.seed=1"}).get<int>("train.epochs") == 7);
  CHECK(from({("--config=" + path).c_str(), "--set=train.epochs=3"}).get<int>("train.epochs") == 3);
  CHECK(from({}).to_json() == config("{}").to_json());
  CHECK_THROWS_WITH_AS(from({"--confg", "x"}), Contains("did you mean --config?"), Error);
  CHECK_THROWS_WITH_AS(from({"--config"}), Contains("needs a value"), Error);
  CHECK_THROWS_WITH_AS(from({"--set", "train.seed=1", "train.epochs=3"}),
                       Contains("got \"train.epochs=3\", want --set train.epochs=3"), Error);
  CHECK_THROWS_WITH_AS(from({"--config", "/nowhere.json"}),
                       Contains("/nowhere.json: cannot open: No such file"), Error);
}

TEST_CASE("a program that lets a config's error escape ends with code 2") {
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::set_thread_count(1);  // a forked process has no other threads
    const auto program = []() noexcept {
      const char* arguments[] = {"program", "--set", "train.epochs=0"};
      ::close(STDERR_FILENO);
      Config::from_args(3, arguments, example::program_config());
    };
    program();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}

TEST_CASE("what only a strategy knows of its options is checked with the config") {
  const auto apex = [](const std::string& options) {
    return R"({"booster": {"mixed_precision": {"name": "fp16_apex", )" + options + "}}}";
  };
  for (const char* legal :
       {R"("opt_level": "O2", "keep_batchnorm_fp32": "True", "loss_scale": "128.0")",
        R"("opt_level": "O3", "keep_batchnorm_fp32": true, "loss_scale": 128)",
        R"("opt_level": "O1", "keep_batchnorm_fp32": null, "loss_scale": "dynamic")",
        R"("half_functions": ["relu"], "cast_model_outputs": "fp32", "num_losses": 3)"})
    CHECK_NOTHROW(config(apex(legal)));
  const std::string zero = apex(R"("opt_level": "02")");
  refuses(zero, "c.json:1:33: booster.mixed_precision: fp16_apex: opt_level");
  refuses(zero, "the letter O, not the number zero");
  refuses(apex(R"("keep_batchnorm_fp32": true)"), "O1 always keeps fp32 weights");
  refuses(apex(R"("opt_level": "O2", "patch_torch_functions": true)"), "only O1 accepts true");
  refuses(apex(R"("opt_level": "O2", "loss_scale": "high")"), "want dynamic or a finite number");
  refuses(apex(R"("opt_level": "O2", "loss_scale": [1])"), "wrong type");
  refuses(apex(R"("half_functions": ["rleu"])"), "rleu");
  refuses(R"({"booster": {"mixed_precision": {"name": "fp16_naive", "min_scale": 1e9}}})",
          "min_scale must be in [0, initial_scale]");
}

TEST_CASE("a first loss scale that f32 has no inverse of is refused with the config") {
  for (const char* strategy :
       {R"("fp16", "init_scale")", R"("fp16_naive", "initial_scale")",
        R"("fp16_paddle", "init_loss_scaling")"})
    for (const char* scale : {"1e-50", "1e-39", "1e39", "0", "-1"})
      refuses(fmt::format(R"({{"booster": {{"mixed_precision": {{"name": {}: {}}}}}}})", strategy,
                          scale),
              "out of range; got");
}

TEST_CASE("the schema lists every option of the defaults") {
  const auto schema = config_schema(example::program_config());
  const auto defaults = config("{}").to_json();
  for (const auto& [section, values] : defaults.items())
    CHECK(schema["properties"].contains(section));
  const auto& train = schema["properties"]["train"]["properties"];
  for (const auto& [name, value] : defaults["train"].items()) {
    REQUIRE(train.contains(name));
    CHECK(train[name].value("default", nlohmann::json()) == value);  // null if no default is listed
  }
  CHECK(schema["additionalProperties"] == false);
}

TEST_CASE("a registered plugin can be named in a config, once") {
  if (!plugin_registry().get("test_plugin")) {
    plugin_registry().add(
        {"test_plugin", "for this test", {integer_option("width", 3, at_least(1), "")}, {}});
  }
  CHECK(config(R"({"booster": {"plugin": "test_plugin"}})").get<int>("booster.plugin.width") == 3);
  CHECK_THROWS_WITH_AS(plugin_registry().add({"test_plugin", "", {}, {}}),
                       Contains("already registered"), Error);
  CHECK_THROWS_WITH_AS(plugin_registry().find("sngle"), Contains("did you mean single?"), Error);
}

TEST_CASE("the library knows no section of a program's, unless the program declares it") {
  const char* text = R"({"train": {"epochs": 2}, "optimizer": {"lr": 1}})";
  CHECK_THROWS_WITH_AS(Config::from_text(text), Contains("train: unknown key"), Error);
  CHECK(config(text).get<int>("train.epochs") == 2);
  const Config c = Config::from_text(text, "c", {}, {.open = true});
  CHECK(c.get<double>("optimizer.lr") == 1);
  CHECK_FALSE(c.has("train"));
}

TEST_CASE("where other sections may stand, what is nearly one of ours is still a mistake") {
  const auto open = [](const char* text) { Config::from_text(text, "c.json", {}, {.open = true}); };
  CHECK_NOTHROW(open(R"({"data": {}, "train": {}, "mine": {"a": 1}})"));
  CHECK_THROWS_WITH_AS(open(R"({"optimiser": {}})"), Contains("did you mean optimizer?"), Error);
  CHECK_THROWS_WITH_AS(open(R"({"mine": 1})"), Contains("c.json:1:2: mine: unknown key"), Error);
  CHECK_THROWS_WITH_AS(open(R"({"optimizer": {"mine": {}}})"), Contains("unknown key"), Error);
}

TEST_CASE("a program's own defaults take the place of the library's") {
  CHECK(Config().get<int64_t>("model.num_classes") == models::VitOptions().num_classes);
  CHECK_FALSE(config("{}").options("model").given<int>("num_classes"));
  const Config resnet = config(R"({"model": {"name": "resnet20"}})");
  CHECK_FALSE(resnet.options("model").given<int>("num_classes"));
  CHECK(config("{}").with("model.num_classes", 7).get<int>("model.num_classes") == 7);
  CHECK_THROWS_WITH_AS(config("{}").with("model.classes", 7), Contains("unknown option"), Error);
  CHECK(config(R"({"model": {"num_classes": 5}})").get<int>("model.num_classes") == 5);
  CHECK_THROWS_WITH_AS(Config::from_text("{}", "c", {}, {.defaults = {{"model.classes", 5}}}),
                       Contains("got classes of model"), Error);
}

TEST_CASE("each program has its own default of what a section chooses by name") {
  const ProgramConfig texts = {.defaults = {{"model.name", "gpt2"}, {"model.vocab_size", 256}}};
  const Config config = Config::from_text("{}", "c", {}, texts);
  CHECK(config.get<std::string>("model.name") == "gpt2");
  CHECK(config.get<int64_t>("model.vocab_size") == 256);
  CHECK(Config::from_text(R"({"model": {"n_layer": 2}})", "c", {}, texts)
            .get<int64_t>("model.n_layer") == 2);
  CHECK(Config::from_text(R"({"model": {"name": "resnet20"}})", "c", {}, texts)
            .get<std::string>("model.name") == "resnet20");
  CHECK_THROWS_WITH_AS(Config::from_text("{}", "c", {}, {.defaults = {{"model.name", "gpt3"}}}),
                       Contains("unknown name in the program's default of model; got gpt3"), Error);
}

TEST_CASE("$schema may stand at the top, and says nothing") {
  CHECK(config(R"({"$schema": "booster.json"})").to_json() == config("{}").to_json());
  refuses(R"({"$schema": 1})", "\"$schema\": wrong type");
  refuses(R"({"train": {"$schema": "x"}})", "train.\"$schema\": unknown key");
}
