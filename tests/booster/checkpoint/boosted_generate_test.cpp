// Generation by boosted models: on several ranks, in the middle of a training, and from what a
// training has saved.
#include "booster/booster.h"
#include "core/nn/key_value_cache.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <functional>

#include <cstdlib>
#include <map>

using namespace booster;
namespace fs = std::filesystem;

namespace {

Model golden_model(const std::string& name) {
  return from_pretrained(test::golden_folder() + "/decoders/" + name);
}

BoostedPair boosted(Booster& booster, const Model& model) {
  return booster.boost(model, AdamW(model.parameters(), {.lr = 1e-2}));
}

const TokenTexts prompts = {{8, 2, 5}, {7}, {1, 2, 3, 4, 5, 6}};

GenerateOptions drawn() {
  return {.max_new_tokens = 10, .sample = true, .temperature = 1.3, .top_k = 30, .seed = 7};
}

// Ends the text with number 1 after its third token, as a stop string does, on the first rank only.
TokenTexts with_stop(const auto& model, bool first) {
  int seen = 0;
  GenerateOptions options = drawn();
  options.on_token = [&](size_t text, int32_t) { return !first || text != 1 || ++seen < 3; };
  return generate(model, prompts, options);
}

HybridParallelOptions tensor_pair() { return {.tp_size = 2}; }

// Made on ranks alone, when a plugin is chosen.
const std::map<std::string, std::function<Choice<Plugin>()>>& ways() {
  const auto hybrid = [](const HybridParallelOptions& options) {
    return [options] { return Choice<Plugin>(HybridParallelPlugin(options)); };
  };
  const auto named = [](const char* name) { return [name] { return Choice<Plugin>(name); }; };
  static const std::map<std::string, std::function<Choice<Plugin>()>> all = {
      {"tensor", hybrid(tensor_pair())},
      {"parallel_output", hybrid({.tp_size = 2, .parallel_output = true})},
      {"data: fsdp", named("fsdp")},
      {"data: low_level_zero", named("low_level_zero")},
      {"data: torch_ddp", named("torch_ddp")},
      {"data: zero_stage 3", hybrid({.dp_size = 2, .zero_stage = 3})}};
  return all;
}

std::vector<float> step(const Booster& booster, BoostedPair& pair, const Tensor& ids) {
  pair.optimizer.zero_grad();
  const Tensor logits = pair.model(ids);
  booster.backward(cross_entropy(flatten(logits, 0, 1), flatten(ids, 0, 1)), pair.optimizer);
  pair.optimizer.step();
  return logits.detach().to_vector<float>();
}

}  // namespace

TEST_CASE("rank: a spread model generates what one process does" * doctest::skip()) {
  const World world = launch_from_env();
  const bool alike = std::string(std::getenv("TEST_PARTS")).starts_with("data");
  for (const char* name : {"llama", "llama_tied", "qwen3"}) {
    CAPTURE(name);
    const Model alone = golden_model(name);
    Booster booster({.plugin = ways().at(std::getenv("TEST_PARTS"))()});
    const BoostedPair pair = boosted(booster, golden_model(name));
    CHECK(generate(pair.model, prompts, {.max_new_tokens = 10}) ==
          generate(alone, prompts, {.max_new_tokens = 10}));
    CHECK(generate(pair.model, prompts, drawn()) == generate(alone, prompts, drawn()));
    const TokenTexts stopped = with_stop(pair.model, alike || world.rank == 0);
    CHECK(stopped == with_stop(alone, true));
    CHECK(stopped[1].size() == 3);
  }
}

TEST_CASE("ranks that hold a model in parts generate the texts of one process") {
  for (const auto& [name, plugin] : ways()) {
    CAPTURE(name);
    Ranks ranks("rank: a spread model generates what one process does", 2, {{"TEST_PARTS", name}});
    for (const RankResult& result : ranks.wait()) {
      CAPTURE(result.output);
      CHECK(result.passed());
    }
  }
}

TEST_CASE("rank: generation is refused or fails on all ranks" * doctest::skip()) {
  const World world = launch_from_env();
  const auto error_with = [](HybridParallelOptions options) {
    Booster booster({.plugin = HybridParallelPlugin(options)});
    const BoostedPair pair = boosted(booster, golden_model("llama"));
    return error_of([&] { generate(pair.model, {{1, 2, 3, 4}}, {.max_new_tokens = 3}); });
  };
  CHECK(contains(error_with({.pp_size = 2}), "ranks along pipeline cannot generate together"));
  CHECK(contains(error_with({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"}),
                 "ranks along sequence cannot generate together"));
  CHECK(contains(error_with({.tp_size = 2, .sequence_parallelism_mode = "split_gather"}),
                 "2 ranks do not divide 1 tokens"));
  // A failure of the first rank's program ends the others.
  Booster booster({.plugin = HybridParallelPlugin(tensor_pair())});
  const BoostedPair pair = boosted(booster, golden_model("llama"));
  GenerateOptions options;
  options.on_token = [&](size_t, int32_t) -> bool {
    if (world.rank == 0) fail("the program gives up");
    return true;
  };
  CHECK(contains(error_of([&] { generate(pair.model, prompts, options); }),
                 world.rank == 0 ? "the program gives up" : "first of the ranks"));
}

TEST_CASE("ranks refuse to generate where they share layers or tokens") {
  Ranks ranks("rank: generation is refused or fails on all ranks", 2);
  for (const RankResult& result : ranks.wait()) {
    CAPTURE(result.output);
    CHECK(result.passed());
  }
}

TEST_CASE("a training goes on as if it had not generated, in every precision") {
  const Tensor ids = from_vector(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  for (const char* precision : {"fp32", "bf16", "fp16", "fp16_naive", "fp16_apex", "fp8"}) {
    CAPTURE(precision);
    std::vector<float> logits[2];
    for (const bool generates : {false, true}) {
      manual_seed(1);  // of weights and dropout
      const Model model = models::gpt2(
          "gpt2", {.vocab_size = 40, .n_positions = 32, .n_embd = 32, .n_layer = 2, .n_head = 2});
      Booster booster({.mixed_precision = precision});
      BoostedPair pair = boosted(booster, model);
      for (int i = 0; i < 4; ++i) {
        const std::vector<float> now = step(booster, pair, ids);
        logits[generates].insert(logits[generates].end(), now.begin(), now.end());
        if (!generates) continue;
        CHECK(generate(pair.model, {{1, 2}}, drawn())[0].size() == 10);
        CHECK(pair.model->training());
        CHECK(current_cache() == nullptr);
      }
      CHECK(pair.model(ids).requires_grad());
    }
    CHECK(logits[0] == logits[1]);
  }
}

TEST_CASE("what a training has saved generates what the boosted model does") {
  const TemporaryFolder folder;
  const Tensor ids = from_vector(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  Booster booster;
  const Model model = golden_model("llama");
  BoostedPair pair = boosted(booster, model);
  for (int i = 0; i < 3; ++i) step(booster, pair, ids);
  const TokenTexts texts = generate(pair.model, prompts, drawn());
  CHECK(texts != generate(golden_model("llama"), prompts, drawn()));
  save_pretrained(pair.model, folder / "tuned");
  CHECK(generate(from_pretrained(folder / "tuned"), prompts, drawn()) == texts);
  booster.save_model(pair.model, folder / "weights.safetensors");
  const BoostedPair other = boosted(booster, golden_model("llama"));
  booster.load_model(other.model, folder / "weights.safetensors");
  CHECK(generate(other.model, prompts, drawn()) == texts);
}
