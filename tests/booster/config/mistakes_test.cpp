// All mistakes of a config in one run, including those that only the objects detect, and names from
// other systems.
#include "booster/booster.h"
#include "booster/config/checks/other_names.h"
#include "booster/config/config_layout.h"
#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/tables/optimizers.h"
#include "examples/vit_caltech101/program_config.h"
#include "tests/capture_part.h"
#include "tests/draws.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>

using namespace booster;
using doctest::Contains;

namespace {

using Json = nlohmann::json;
using Lines = std::vector<std::string>;

// Checks a text with the sections of the example.
Lines mistakes(std::string_view text, const std::vector<std::string>& overrides = {}) {
  try {
    Config::from_text(text, "c.json", overrides, example::program_config());
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    Lines lines;
    std::istringstream stream(error.what());
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  return {};
}

void check_only(std::string_view text, const std::string& begin, const std::string& part) {
  const Lines lines = mistakes(text);
  REQUIRE_MESSAGE(lines.size() == 1, text);
  CHECK_MESSAGE(lines[0].starts_with(begin), lines[0]);
  CHECK_MESSAGE(lines[0].find(part) != std::string::npos, lines[0]);
}

}  // namespace

TEST_CASE("all mistakes are told in one run, a line for each, in the order of the file") {
  const Lines lines = mistakes(R"({
  "train": {"epochs": 0, "sed": 1},
  "optimizer": {"name": "AdamW", "learning_rate": 1, "lr": "fast", "betas": [2, 3]},
  "booster": {"mixed_precision": {"name": "float16", "init_scale": -1},
              "plugin": 5},
  "data": [],
  "lr_scheduler": {"name": "linear_warmup", "warmup_steps": 9, "total_steps": 5},
  "model": {"name": "vit_tiny_patch16_224", "img_size": 8, "heads": 3}
})",
                               {"train.seed=x", "train.prfile=1:2", "train..seed=1"});
  const Lines want = {
      "c.json:2:23: train.epochs: out of range; got 0",
      "c.json:2:26: train.sed: unknown key; got \"sed\"",
      "c.json:3:25: optimizer.name: unknown name; got \"AdamW\"",
      "c.json:3:34: optimizer.learning_rate: unknown key of adamw; got \"learning_rate\"",
      "c.json:3:60: optimizer.lr: wrong type; got \"fast\"",
      "c.json:3:78: optimizer.betas: out of range; got 2",
      "c.json:3:81: optimizer.betas: out of range; got 3",
      "c.json:4:43: booster.mixed_precision.name: unknown name; got \"float16\"",
      "c.json:4:68: booster.mixed_precision.init_scale: out of range; got -1",
      "c.json:5:25: booster.plugin: wrong type; got 5, want a name or an object",
      "c.json:6:11: data: wrong type; got a list, want an object",
      "c.json:7:19: lr_scheduler: linear_warmup: warmup_steps is more than total_steps; got 9 and ",
      "c.json:8:57: model.img_size: out of range; got 8",
      "c.json:8:60: model.heads: unknown key of vit_tiny_patch16_224; got \"heads\"",
      "--set train..seed=1: empty key",
      "--set train.seed=x: train.seed: wrong type; got \"x\"",
      "--set train.prfile=1:2: train.prfile: unknown key; got \"prfile\""};
  REQUIRE_MESSAGE(lines.size() == want.size(), fmt::format("{}", fmt::join(lines, "\n")));
  for (size_t i = 0; i < want.size(); ++i) CHECK_MESSAGE(lines[i].starts_with(want[i]), lines[i]);
}

TEST_CASE("mistakes within an object option and a list are told one by one") {
  const Lines lines = mistakes(R"({"booster": {"mixed_precision": {"name": "fp16_paddle",
    "amp_configs": {"init_loss_scaling": "x", "incr_ratoi": 2, "decr_ratio": 5}}},
    "lr_scheduler": {"name": "multi_step", "milestones": [1, -2, 3, -4]}})");
  REQUIRE(lines.size() == 5);
  CHECK(lines[1].find("(did you mean incr_ratio?)") != std::string::npos);
}

TEST_CASE("a config of nothing but mistakes ends the list") {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) text += fmt::format("\"k{}\": 0, ", i);
  const Lines lines = mistakes(text + "\"device\": 1}");
  REQUIRE(lines.size() == 51);
  CHECK(lines.back() == "and 4951 more mistakes");
}

TEST_CASE("options that do not go together are mistakes of the config") {
  check_only(R"({"optimizer": {"name": "sgd", "nesterov": true}})",
             "c.json:1:15: optimizer: sgd: ", "nesterov needs momentum without dampening");
  check_only(R"({"model": {"name": "vit_small_patch32_224", "img_size": 16}})",
             "c.json:1:11: model: vit: ", "image is smaller than a patch; got (16, 16)");
  check_only(R"({"model": {"name": "mlp"}})", "c.json:1:11: model: mlp: ", "at least an input");
  check_only(R"({"model": {"name": "vit_tiny_patch16_224", "num_heads": 5}})",
             "c.json:1:11: model: vit: ", "5");
  const auto hybrid = [](const char* options) {
    return fmt::format(R"({{"booster": {{"plugin": {{"name": "hybrid_parallel", {}}}}}}})",
                       options);
  };
  check_only(hybrid(R"("sp_size": 2)"), "c.json:1:24: booster.plugin: ", "want all_to_all");
  check_only(hybrid(R"("pp_size": 2, "zero_stage": 3)"),
             "c.json:1:24: booster.plugin: ", "want zero_stage 0, 1 or 2");
  check_only(hybrid(R"("pp_size": 2, "pp_style": "interleaved")"),
             "c.json:1:24: booster.plugin: ", "2 chunks or more");
  check_only(hybrid(R"("tp_size": 4294967297)"), "c.json:1:24: booster.plugin: ", "want 1 to 4096");
  CHECK(mistakes(hybrid(R"("tp_size": 4, "pp_size": 2)")).empty());
  check_only(R"({"device": "cuda:7"})", "c.json:1:12: device: ", "want cpu");
  check_only(R"({"lr_scheduler": {"name": "cosine_warmup", "warmup_steps": 6, "total_steps": 5}})",
             "c.json:1:18: lr_scheduler: cosine_warmup: ", "want at most 5");
  CHECK(mistakes(R"({"lr_scheduler": {"name": "cosine_warmup", "warmup_steps": 5}})").empty());
  // A section that is wrong by itself is not made.
  CHECK(mistakes(R"({"optimizer": {"nesterov": true, "lr": -1}})").size() == 1);
}

TEST_CASE("a shorter training than its warm-up is a mistake that needs no data") {
  const char* text = R"({"lr_scheduler": {"name": "cosine_warmup", "warmup_steps": 6},
                         "train": {"max_steps": 5}})";
  check_only(text, "c.json:1:60: lr_scheduler.warmup_steps: ", "train.max_steps");
  CHECK(mistakes(text, {"train.max_steps=6"}).empty());
  CHECK(mistakes(text, {"lr_scheduler.total_steps=9"}).empty());
}

TEST_CASE("a model that cannot take the example's images is a mistake") {
  const auto mlp = [](const std::string& rest) {
    return R"({"data": {"img_size": 16}, "model": {"name": "mlp", "sizes": [768, 8])" + rest + "}}";
  };
  CHECK(mistakes(mlp(R"(, "flatten": true)")).empty());
  check_only(mlp(""), "c.json:1:37: model.flatten: ", "want true");
  check_only(R"({"model": {"name": "mlp", "sizes": [10, 8], "flatten": true}})",
             "c.json:1:36: model.sizes: ", "got 10, want 3 x 224 x 224 = 150528");
  check_only(R"({"model": {"name": "resnet20", "in_chans": 1}})",
             "c.json:1:44: model.in_chans: ", "want 3");
}

TEST_CASE("names of other systems are answered with ours") {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"({"optimizer": {"name": "AdamW"}})", "optimizer.name", "adamw"},
      {R"({"optimizer": {"name": "SGD"}})", "optimizer.name", "sgd"},
      {R"({"optimizer": {"name": "FusedAdam"}})", "optimizer.name", "adam"},
      {R"({"optimizer": {"learning_rate": 1}})", "optimizer.learning_rate", "lr"},
      {R"({"optimizer": {"learning-rate": 1}})", "optimizer.learning-rate", "lr"},
      {R"({"optimizer": {"wd": 1}})", "optimizer.wd", "weight_decay"},
      {R"({"optimizer": {"type": "adam"}})", "optimizer.type", "name"},
      {R"({"learning_rate": 1})", "learning_rate", "optimizer.lr"},
      {R"({"lr": 1})", "lr", "optimizer.lr"},
      {R"({"batch_size": 8})", "batch_size", "data.batch_size"},
      {R"({"train": {"batch_size": 8}})", "train.batch_size", "data.batch_size"},
      {R"({"train": {"lr": 8}})", "train.lr", "optimizer.lr"},
      {R"({"train": {"device": "cpu"}})", "train.device", "device at the top"},
      {R"({"data": {"num_workers": 1}})", "data.num_workers", "workers"},
      {R"({"data": {"batch": 1}})", "data.batch", "batch_size"},
      {R"({"data": {"bs": 1}})", "data.bs", "batch_size"},
      {R"({"batch": 1})", "batch", "data.batch_size"},
      {R"({"train": {"epoch": 1}})", "train.epoch", "epochs"},
      {R"({"train": {"num_epochs": 1}})", "train.num_epochs", "epochs"},
      {R"({"epochs": 1})", "epochs", "train.epochs"},
      {R"({"train": {"max_grad_norm": 1}})", "train.max_grad_norm", "clip_grad_norm"},
      {R"({"train": {"gradient_accumulation_steps": 1}})", "train.gradient_accumulation_steps",
       "accumulate"},
      {R"({"gpu": 0})", "gpu", "device"},
      {R"({"device": "gpu"})", "device", "cuda"},
      {R"({"amp": true})", "amp", "booster.mixed_precision"},
      {R"({"booster": {"amp": true}})", "booster.amp", "mixed_precision"},
      {R"({"booster": {"precision": "fp16"}})", "booster.precision", "mixed_precision"},
      {R"({"fp16": true})", "fp16", "booster.mixed_precision"},
      {R"({"booster": {"mixed_precision": "half"}})", "booster.mixed_precision.name", "fp16"},
      {R"({"booster": {"mixed_precision": "float16"}})", "booster.mixed_precision.name", "fp16"},
      {R"({"booster": {"mixed_precision": "FP16"}})", "booster.mixed_precision.name", "fp16"},
      {R"({"booster": {"mixed_precision": "bfloat16"}})", "booster.mixed_precision.name", "bf16"},
      {R"({"booster": {"mixed_precision": "no"}})", "booster.mixed_precision.name", "fp32"},
      {R"({"booster": {"plugin": "ddp"}})", "booster.plugin.name", "torch_ddp"},
      {R"({"booster": {"plugin": "zero"}})", "booster.plugin.name", "low_level_zero"},
      {R"({"booster": {"plugin": "deepspeed"}})", "booster.plugin.name", "low_level_zero"},
      {R"({"scheduler": {"name": "cosine"}})", "scheduler", "lr_scheduler"},
      {R"({"lr_scheduler": {"name": "CosineAnnealingLR"}})", "lr_scheduler.name", "cosine"},
      {R"({"lr_scheduler": {"name": "StepLR"}})", "lr_scheduler.name", "step"},
      {R"({"lr_scheduler": {"name": "cosine_warmup", "num_warmup_steps": 5}})",
       "lr_scheduler.num_warmup_steps", "warmup_steps"},
      {R"({"model": {"name": "resnet18"}})", "model.name", "resnet20"},
      {R"({"model": {"image_size": 32}})", "model.image_size", "img_size"},
      {R"({"dataset": {"root": "x"}})", "dataset", "data"}};
  for (const auto& [text, path, name] : cases) {
    CAPTURE_PART(text);
    const Lines lines = mistakes(text);
    REQUIRE(lines.size() == 1);
    CHECK_MESSAGE(lines[0].find(fmt::format(": {}: unknown", path)) != std::string::npos, lines[0]);
    CHECK_MESSAGE(lines[0].find(fmt::format("(did you mean {}?)", name)) != std::string::npos,
                  lines[0]);
  }
  CHECK_THROWS_WITH_AS(plugin_registry().find("ddp"), Contains("did you mean torch_ddp?"), Error);
}

TEST_CASE("every name that another system's word stands for is a name of ours") {
  Lines legal;
  const auto add = [&](const OptionTable& options) {
    for (const Option& option : options) {
      legal.push_back(option.name);
      for (const Option& member : option.members) legal.push_back(member.name);
    }
  };
  const auto walk = [&](const auto& self, const Section& section) -> void {
    legal.push_back(section.name);
    add(section.options);
    for (const auto& choice : section.choices) {
      legal.push_back(choice.name);
      add(choice.options);
    }
    for (const auto& inner : section.sections) self(self, inner);
  };
  walk(walk, config_layout(example::program_config()));
  legal.insert(legal.end(), {"name", "cuda"});
  const std::pair<const char*, const char*> rows[] = {
#define OTHER(theirs, ours) {theirs, ours},
#include "booster/config/checks/other_names.def"
#undef OTHER
  };
  for (const auto& [theirs, ours] : rows) {
    CAPTURE_PART(theirs);
    CAPTURE_PART(ours);
    CHECK(std::find(legal.begin(), legal.end(), ours) != legal.end());
    CHECK_FALSE(meant_by(theirs).empty());  // in the form in which words are compared
  }
}

namespace {

// Returns a random value for an option, mostly a legal one.
Json drawn(const Option& option, std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<double> values) {
    double value = 0;
    for (int tries = 0; tries < 8; ++tries) {
      value = values.begin()[random() % values.size()];
      if (option.range.contains(value) || random() % 20 == 0) break;
    }
    return value;
  };
  const auto number = [&] { return one_of({-1, 0, 1e-3, 0.1, 0.5, 0.9, 1, 2, 5, 1e4}); };
  const auto whole = [&] { return static_cast<int64_t>(one_of({-1, 0, 1, 2, 3, 16, 40, 1e4})); };
  switch (option.type) {
    case OptionType::boolean: return random() % 2 == 0;
    case OptionType::integer: return whole();
    case OptionType::number: return number();
    case OptionType::choice: return option.choices[random() % option.choices.size()];
    case OptionType::integers: {
      Json list = Json::array();
      for (size_t i = random() % 4; i > 0; --i) list.push_back(1 + random() % 9);
      return list;
    }
    case OptionType::numbers: return {number(), number()};
    case OptionType::scalar: {
      const Json values[] = {nullptr, true, false, "fp16", "dynamic", 128};
      return values[random() % 6];
    }
    default: return option.default_value;
  }
}

Json drawn(const Lines& names, const std::vector<OptionTable>& tables, std::mt19937& random) {
  const size_t which = random() % names.size();
  Json section = {{"name", names[which]}};
  for (const Option& option : tables[which])
    if (random() % 3 == 0) section[option.name] = drawn(option, random);
  return section;
}

// Draws a section, without the large models.
template <class Entries>
Json drawn_section(const Entries& entries, std::mt19937& random) {
  Lines names;
  std::vector<OptionTable> tables;
  for (const auto& entry : entries) {
    if (entry.name.starts_with("vit_") && !entry.name.starts_with("vit_tiny")) continue;
    if (entry.name.starts_with("gpt2-")) continue;
    if (entry.name.starts_with("test_")) continue;  // registered by another test; cannot be made
    names.push_back(entry.name);
    tables.push_back(entry.options);
  }
  return drawn(names, tables, random);
}

// These models have free sizes: random sizes would not fit into memory.
Json drawn_model(std::mt19937& random) {
  Json model = drawn_section(model_registry().entries(), random);
  if (model["name"] == "gpt2") {
    model.update({{"vocab_size", 64}, {"n_embd", 24}, {"n_layer", 1}});
    model["n_head"] = 1 + random() % 5;
  }
  if (model["name"] == "bert") {
    model.update({{"vocab_size", 64},
                  {"hidden_size", 24},
                  {"intermediate_size", 32},
                  {"num_hidden_layers", 1},
                  {"max_position_embeddings", 64},
                  {"type_vocab_size", 2}});
    model["num_attention_heads"] = 1 + random() % 5;
    model["num_labels"] = 1 + random() % 5;
  }
  const auto decoders = models::decoder_names();
  if (std::find(decoders.begin(), decoders.end(), model["name"]) != decoders.end()) {
    model.update({{"vocab_size", 64},
                  {"hidden_size", 24},
                  {"intermediate_size", 32},
                  {"num_hidden_layers", 1},
                  {"max_position_embeddings", 64}});
    model["num_attention_heads"] = 1 + random() % 5;
    model["num_key_value_heads"] = 1 + random() % 3;
    model["head_dim"] = 1 + random() % 9;
  }
  if (model["name"].get<std::string>().starts_with("vit_")) {
    model.update({{"embed_dim", 24}, {"depth", 1}});
    model["num_heads"] = 1 + random() % 5;
  }
  return model;
}

// Missing ranks are no mistake of the config, so the drawn plugins need one rank.
Json drawn_plugin(std::mt19937& random) {
  Json plugin = drawn_section(plugin_registry().entries(), random);
  if (plugin["name"] == "hybrid_parallel")
    for (const char* size : {"tp_size", "pp_size", "sp_size", "dp_size"}) plugin[size] = 1;
  return plugin;
}

Json drawn_config(std::mt19937& random) {
  return {{"model", drawn_model(random)},
          {"optimizer", drawn_section(optimizer_entries(), random)},
          {"lr_scheduler", drawn_section(lr_scheduler_entries(), random)},
          {"booster",
           {{"plugin", drawn_plugin(random)},
            {"mixed_precision", drawn_section(precision_registry().entries(), random)}}}};
}

// Makes all objects that a training makes from a config.
void make_all(const Config& config) {
  Booster booster = Booster::from_config(config);
  const Model model = make_model(config);
  const Optimizer optimizer = make_optimizer(config, model);
  const auto total =
      config.has("lr_scheduler.total_steps") ? config.get<int64_t>("lr_scheduler.total_steps") : 0;
  const LRScheduler scheduler = make_lr_scheduler(config, optimizer, total ? total : 100'000);
  booster.boost(model, optimizer);
}

}  // namespace

TEST_CASE("what config check accepts can be made, and each refusal names its section") {
  size_t accepted = 0, refused = 0;
  const std::vector<unsigned> seeds = testing::draws(600);
  for (const unsigned seed : seeds) {
    std::mt19937 random(seed);
    const std::string text = drawn_config(random).dump();
    std::string problem;
    try {
      const Config config = Config::from_text(text, "c.json");
      check_objects(config);
      ++accepted;
      CAPTURE(text);
      CHECK_NOTHROW(make_all(config));
      continue;
    } catch (const Error& error) {
      problem = error.what();
      ++refused;
    }
    std::istringstream lines(problem);
    for (std::string line; std::getline(lines, line);)
      CHECK_MESSAGE(line.starts_with("c.json:1:"), line);
  }
  CHECK(accepted > seeds.size() / 12);
  CHECK(refused > seeds.size() / 12);
}
