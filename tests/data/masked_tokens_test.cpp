// Hidden tokens of masked language models.
#include "core/data/datasets/datasets.h"
#include "core/data/datasets/texts.h"
#include "core/data/loader.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace booster;

namespace {

constexpr int64_t words = 1000, cls = 1, sep = 2, mask = 3;

MaskedTokensOptions usual() {
  return {.vocab_size = words, .mask_token = mask, .special_tokens = {0, cls, sep}};
}

TokenDataset text_of_words(int64_t count, int64_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t& token : tokens) token = static_cast<int64_t>(random() % words);
  return TokenDataset(from_vector(tokens, {count}), {.length = length});
}

std::map<std::vector<int64_t>, int> rows_of(DataLoader& loader) {
  std::map<std::vector<int64_t>, int> rows;
  for (auto& [image, label] : loader)
    for (int64_t i = 0; i < image.size(0); ++i) {
      auto row = untracked::select(image, 0, i).to_vector<int64_t>();
      const auto labels = untracked::select(label, 0, i).to_vector<int64_t>();
      row.insert(row.end(), labels.begin(), labels.end());
      ++rows[row];
    }
  return rows;
}

}  // namespace

TEST_CASE("tokens are hidden in BERT's shares, and special ones never") {
  constexpr int64_t length = 100;
  const TokenDataset text = text_of_words(400 * length + 1, length, 7);
  const MaskedTokens masked(text, usual());
  double maskable = 0, chosen = 0, replaced = 0, kept = 0;
  for (int64_t i = 0; i < masked.size(); ++i) {
    RandomStream random(42, 0, static_cast<uint64_t>(i)), unused(0, 0, 0);
    const Sample sample = masked.load(i, random), before = text.load(i, unused);
    std::vector<int64_t> tokens(length), original(length);
    sample.write(tokens.data());
    before.write(original.data());
    const auto labels = sample.label().to_vector<int64_t>();
    for (size_t k = 0; k < length; ++k) {
      const bool is_special = original[k] <= sep;
      maskable += !is_special;
      if (labels[k] == -100) {
        CHECK(tokens[k] == original[k]);
        continue;
      }
      REQUIRE(!is_special);
      REQUIRE(labels[k] == original[k]);
      ++chosen;
      replaced += tokens[k] == mask;
      kept += tokens[k] == original[k];
    }
  }
  CHECK(chosen / maskable == doctest::Approx(0.15).epsilon(0.05));
  CHECK(replaced / chosen == doctest::Approx(0.8).epsilon(0.02));
  CHECK(kept / chosen == doctest::Approx(0.1).epsilon(0.12));
}

TEST_CASE("every sample hides a token, and the tokens around it are put on") {
  auto options = usual();
  options.mlm_probability = 1e-9;
  options.first_token = cls;
  options.last_token = sep;
  const MaskedTokens masked(text_of_words(61, 6, 3), options);
  for (int64_t i = 0; i < masked.size(); ++i) {
    RandomStream random(1, 0, static_cast<uint64_t>(i));
    const Sample sample = masked.load(i, random);
    std::vector<int64_t> tokens(8);
    CHECK(sample.shape() == Shape{8});
    sample.write(tokens.data());
    CHECK(tokens.front() == cls);
    CHECK(tokens.back() == sep);
    const auto labels = sample.label().to_vector<int64_t>();
    CHECK(std::ranges::count(labels, -100) == 7);
  }
  const MaskedTokens special(
      TokenDataset(from_vector(std::vector<int64_t>{0, cls, sep, 0}, {4}), {.length = 3}), usual());
  RandomStream random(1, 0, 0);
  const auto none = special.load(0, random).label().to_vector<int64_t>();
  CHECK(std::ranges::count(none, -100) == 3);
}

TEST_CASE("what is hidden depends on seed, epoch and sample, not on ranks or where a loop began") {
  for (const unsigned seed : testing::draws(11)) {
    const auto make = [&] { return MaskedTokens(text_of_words(331, 15, seed), usual()); };
    const DataLoaderOptions options = {.batch_size = 4, .shuffle = true, .seed = seed};
    DataLoader whole(make(), options), resumed(make(), options);
    const auto first = rows_of(whole), second = rows_of(whole);
    CHECK(first != second);
    resumed.load_state({.epoch = 1, .batch = 0});
    CHECK(rows_of(resumed) == second);
    std::map<std::vector<int64_t>, int> together;
    for (int rank = 0; rank < 2; ++rank) {
      DataLoaderOptions part = options;
      part.batch_size = 2;
      part.rank = rank;
      part.world_size = 2;
      DataLoader loader(make(), part);
      for (const auto& [row, count] : rows_of(loader)) together[row] += count;
    }
    CHECK(together == first);
  }
}

TEST_CASE("options of hidden tokens are checked, and are a part of the identity") {
  const TokenDataset text = text_of_words(50, 6, 1);
  const auto error = [&](auto change) {
    auto options = usual();
    change(options);
    return error_of([&] { MaskedTokens(text, options); });
  };
  CHECK(contains(error([](auto& o) { o.vocab_size = 0; }), "vocab_size; got 0"));
  CHECK(contains(error([](auto& o) { o.mask_token = words; }), "mask_token; got 1000"));
  CHECK(contains(error([](auto& o) { o.first_token = -1; }), "first_token; got -1"));
  CHECK(contains(error([](auto& o) { o.mlm_probability = 0; }), "want in (0, 1]"));
  CHECK(contains(error([](auto& o) { o.random_replace_prob = 0.3; }), "at most 1 together"));
  auto other = usual();
  other.mlm_probability = 0.2;
  const auto plain = MaskedTokens(text, usual()).identity();
  CHECK(plain == MaskedTokens(text, usual()).identity());
  CHECK(plain != MaskedTokens(text, other).identity());
  CHECK(plain.kind == "masked tokens");
  const MaskedTokens wrong(TensorDataset(zeros({2, 3}), zeros({2})), usual());
  RandomStream random(1, 0, 0);
  CHECK(contains(error_of([&] { wrong.load(0, random); }), "want whole numbers (n)"));
}
