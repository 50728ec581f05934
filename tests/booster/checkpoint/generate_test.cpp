// Generation with a key/value cache: tokens are those of Hugging Face and of a model without a
// cache.
#include "booster/booster.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "core/nn/generate.h"
#include "core/nn/key_value_cache.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

using namespace booster;

namespace {

std::string decoder_folder(const std::string& name) {
  return test::golden_folder() + "/decoders/" + name;
}

const std::vector<std::string> generating = {"llama",   "llama_tied", "llama_yarn",
                                             "mistral", "qwen2",      "qwen3"};

nlohmann::json golden_generation() {
  std::ifstream file(test::golden_folder() + "/decoders/generation.json");
  return nlohmann::json::parse(file);
}

// Each token's share of evenly spaced draws.
std::vector<double> shares(const std::vector<float>& scores, const std::vector<int32_t>& text,
                           const GenerateOptions& options, int draws) {
  std::vector<double> counts(scores.size());
  for (int i = 0; i < draws; ++i)
    ++counts[static_cast<size_t>(next_token(scores, text, options, (i + 0.5) / draws))];
  for (double& count : counts) count /= draws;
  return counts;
}

std::vector<int32_t> ids_of(const Tensor& row) {
  const auto ids = row.to_vector<int64_t>();
  return {ids.begin(), ids.end()};
}

// Returns what the model would write if it read the whole text again for each token.
std::vector<int32_t> without_cache(const Model& model, std::vector<int32_t> text, int64_t count) {
  const NoGradGuard no_grad;
  model.eval();
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> ids(text.begin(), text.end());
    const Tensor logits = model(from_vector(ids, {1, static_cast<int64_t>(ids.size())}));
    const auto last = select(select(logits, 0, 0), 0, -1).to_vector<float>();
    tokens.push_back(next_token(last, text, {}, 0));
    text.push_back(tokens.back());
  }
  return tokens;
}

std::vector<int32_t> drawn_prompt(std::mt19937& random, int vocabulary) {
  std::vector<int32_t> prompt(1 + random() % 9);
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % vocabulary);
  return prompt;
}

Model small_gpt2() {
  manual_seed(3);
  return models::gpt2(
      "gpt2", {.vocab_size = 40, .n_positions = 32, .n_embd = 24, .n_layer = 2, .n_head = 3});
}

}  // namespace

TEST_CASE("greedy texts are those of Hugging Face") {
  for (const auto& name : generating) {
    CAPTURE(name);
    const auto all = load_safetensors(decoder_folder(name) + "/expected.safetensors");
    const std::vector<int32_t> whole = ids_of(select(all.at("tokens"), 0, 0));
    const std::vector<int32_t> prompt(whole.begin(), whole.begin() + 4);
    const auto texts =
        generate(from_pretrained(decoder_folder(name)), {prompt}, {.max_new_tokens = 12});
    CHECK(texts[0] == std::vector<int32_t>(whole.begin() + 4, whole.end()));
  }
}

TEST_CASE("drawn greedy texts are those of Hugging Face, alone and in batches") {
  std::map<std::string, Model> models;
  std::map<std::pair<std::string, double>, std::vector<nlohmann::json>> batches;
  const nlohmann::json golden = golden_generation();
  for (const auto& one : golden.at("texts")) {
    const std::string name = one.at("model");
    if (!models.contains(name)) models.emplace(name, from_pretrained(decoder_folder(name)));
    CAPTURE(name);
    CAPTURE(one.dump());
    const double penalty = one.at("repetition_penalty");
    const auto texts = generate(models.at(name), {one.at("prompt").get<std::vector<int32_t>>()},
                                {.max_new_tokens = 24, .repetition_penalty = penalty});
    CHECK(texts[0] == one.at("tokens").get<std::vector<int32_t>>());
    // Dynamic scaling turns a text by the longest one of its batch.
    if (name != "llama_dynamic") batches[{name, penalty}].push_back(one);
  }
  for (const auto& [key, batch] : batches) {
    CAPTURE(key.first);
    TokenTexts prompts, expected;
    for (const auto& one : batch) {
      prompts.push_back(one.at("prompt"));
      expected.push_back(one.at("tokens"));
    }
    const GenerateOptions options = {.max_new_tokens = 24, .repetition_penalty = key.second};
    CHECK(generate(models.at(key.first), prompts, options) == expected);
  }
}

TEST_CASE("tokens are drawn from Hugging Face's distributions, ties and limits included") {
  const nlohmann::json golden = golden_generation();
  for (const auto& one : golden.at("distributions")) {
    CAPTURE(one.dump());
    const GenerateOptions options = {.sample = true,
                                     .repetition_penalty = one.at("repetition_penalty"),
                                     .temperature = one.at("temperature"),
                                     .top_k = one.at("top_k"),
                                     .top_p = one.at("top_p")};
    auto got = shares(one.at("scores"), one.at("text"), options, 1000);
    std::vector<double> want = one.at("probabilities");
    // Which of equal scores stays within top_p is not defined: torch's order of them is not.
    std::ranges::sort(got);
    std::ranges::sort(want);
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
    CHECK(worst <= 0.0021);
  }
}

TEST_CASE("texts of several prompts are those of each prompt alone, and of no cache") {
  std::vector<Model> models = {small_gpt2()};
  for (const auto& name : generating) models.push_back(from_pretrained(decoder_folder(name)));
  for (const unsigned seed : testing::draws(30)) {
    std::mt19937 random(seed);
    const Model& model = models[seed % models.size()];
    CAPTURE(seed);
    TokenTexts prompts;
    for (auto count = 1 + random() % 3; count > 0; --count)
      prompts.push_back(drawn_prompt(random, 40));
    const auto texts = generate(model, prompts, {.max_new_tokens = 9});
    REQUIRE(texts.size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i)
      CHECK(texts[i] == without_cache(model, prompts[i], 9));
  }
}

TEST_CASE("a text ends at a stop token, at its length, or when the program says so") {
  const Model model = from_pretrained(decoder_folder("llama"));
  const auto all = generate(model, {{1, 2}, {3}}, {.max_new_tokens = 8});
  CHECK(all[0].size() == 8);
  const int32_t third = all[0][2];
  const auto first_third = std::find(all[0].begin(), all[0].end(), third);
  const auto stopped = generate(model, {{1, 2}}, {.max_new_tokens = 8, .stop_tokens = {third}});
  CHECK(stopped[0] == std::vector<int32_t>(all[0].begin(), first_third + 1));
  std::vector<int32_t> seen;
  const auto cut = generate(model, {{1, 2}, {3}},
                            {.max_new_tokens = 8, .on_token = [&](size_t text, int32_t token) {
                               if (text == 1) seen.push_back(token);
                               return text == 1;
                             }});
  CHECK(cut[0].size() == 1);
  CHECK(cut[1] == all[1]);
  CHECK(seen == all[1]);
  CHECK(generate(model, {{1}}, {.max_new_tokens = 0})[0].empty());
}

TEST_CASE("draws follow the scores, and a seed repeats them") {
  const std::vector<float> scores = {1, 3, 2, -INFINITY, 0};
  const std::vector<int32_t> text = {1};
  const auto share = [&](const GenerateOptions& options) {
    return shares(scores, text, options, 20'000);
  };
  const auto near = [](const std::vector<double>& got, std::vector<double> weights) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (size_t i = 0; i < weights.size(); ++i)
      CHECK(got[i] == doctest::Approx(weights[i] / sum).epsilon(0.001));
  };
  const double e = std::exp(1);
  near(share({.sample = true}), {e, e * e * e, e * e, 0, 1});
  near(share({.sample = true, .temperature = 0.5}), {e * e, std::exp(6), std::exp(4), 0, 1});
  near(share({.sample = true, .top_k = 2}), {0, e, 1, 0, 0});
  near(share({.sample = true, .top_p = 0.7}), {0, e, 1, 0, 0});
  near(share({.sample = true, .repetition_penalty = 3}), {e, e, e * e, 0, 1});
  CHECK(next_token(scores, text, {}, 0.99) == 1);
  const Model model = from_pretrained(decoder_folder("qwen3"));
  const GenerateOptions drawn = {.max_new_tokens = 20, .sample = true, .seed = 5};
  CHECK(generate(model, {{1, 2}}, drawn) == generate(model, {{1, 2}}, drawn));
  GenerateOptions other = drawn;
  other.seed = 6;
  CHECK(generate(model, {{1, 2}}, drawn) != generate(model, {{1, 2}}, other));
}

TEST_CASE("generation leaves the model as it was, and refuses what makes no sense") {
  const Model model = small_gpt2();
  model.train();
  generate(model, {{1, 2, 3}}, {.max_new_tokens = 2});
  CHECK(model->training());
  CHECK(current_cache() == nullptr);
  CHECK(contains(error_of([&] { generate(model, {{}}); }), "a prompt without tokens"));
  CHECK(contains(error_of([&] { generate(model, TokenTexts{}); }), "no prompt"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.temperature = 0}); }), "temperature"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.temperature = INFINITY}); }),
                 "temperature"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.top_p = 1.5}); }), "top_p"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.top_p = 0}); }), "top_p"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.top_k = -1}); }), "top_k"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.repetition_penalty = 0}); }),
                 "repetition_penalty"));
  CHECK(contains(error_of([&] { next_token(std::vector<float>{1, NAN}, {}, {}, 0); }), "nan"));
  CHECK(contains(
      error_of([&] { next_token(std::vector<float>{-INFINITY}, {}, {.sample = true}, 0); }),
      "highest score is -inf"));
  CHECK(contains(error_of([&] { generate(model, {{99}}, {.max_new_tokens = 4}); }),
                 "want 0 to 39"));
  CHECK(contains(error_of([&] { generate(model, {{1}}, {.max_new_tokens = 40}); }),
                 "more tokens than positions; got 40, want at most 32"));
  CHECK(generate(model, {{1}}, {.max_new_tokens = 32})[0].size() == 32);  // the last is not read
  CHECK(model->training());
  const Model other = Sequential({Embedding(5, 4), Linear(4, 5)});
  CHECK(contains(error_of([&] { generate(other, {{1}}); }), "does not use the key/value cache"));
}

TEST_CASE("a cache has room for the expected tokens, and layers with a window drop old keys") {
  const NoGradGuard no_grad;
  const auto tokens = [](int64_t count) { return zeros({1, 1, count, 4}); };
  KeyValueCache cache({}, 100);
  cache.attend(0, tokens(3), tokens(3), tokens(3), 0);
  CHECK(cache.bytes() == 2 * 100 * 4 * 4);
  cache.attend(1, tokens(3), tokens(3), tokens(3), 6);
  cache.advance(3);
  CHECK(cache.bytes() == 2 * (100 + 12) * 4 * 4);
  for (int i = 0; i < 60; ++i) {
    for (const int64_t layer : {0, 1})
      cache.attend(layer, tokens(1), tokens(1), tokens(1), layer == 0 ? 0 : 6);
    cache.advance(1);
  }
  CHECK(cache.bytes() == 2 * (100 + 12) * 4 * 4);
}
