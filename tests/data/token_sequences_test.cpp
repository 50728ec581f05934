// Rows of token sequences: padded, packed, and of conversations; each token is seen once, on any
// number of ranks.
#include "core/data/datasets/token_sequences.h"
#include "core/data/loader.h"
#include "tests/data/files.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace booster;
using namespace booster::test;

namespace {

constexpr int32_t document_end = 0;

using Numbers = std::vector<int64_t>;

// Sequences of distinct tokens, each ended by document_end. Tokens of answers are odd.
class Drawn : public TokenSequences {
 public:
  Drawn(std::mt19937& random, int64_t count, int64_t longest, bool answers = false)
      : answers_(answers) {
    int64_t token = 1;
    for (int64_t i = 0; i < count; ++i) {
      Numbers own(1 + random() % static_cast<unsigned>(longest));
      for (int64_t& one : own) one = token++;
      own.push_back(document_end);
      all_.push_back(std::move(own));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(all_.size()); }
  int64_t length(int64_t i) const override { return static_cast<int64_t>(of(i).size()); }
  void read(int64_t i, int64_t start, std::span<int64_t> tokens,
            std::span<int64_t> labels) const override {
    for (size_t k = 0; k < tokens.size(); ++k) {
      tokens[k] = of(i).at(static_cast<size_t>(start) + k);
      labels[k] = label(i, start + static_cast<int64_t>(k));
    }
  }
  int64_t first_label(int64_t i) const override {
    for (int64_t k = 0; k < length(i); ++k)
      if (label(i, k) != ignored_token) return k;
    return length(i);
  }
  uint64_t fingerprint() const override { return 7; }
  int64_t label(int64_t i, int64_t place) const {
    if (place + 1 >= length(i)) return ignored_token;
    const int64_t next = of(i)[static_cast<size_t>(place) + 1];
    return answers_ && next % 2 == 0 ? ignored_token : next;
  }

 private:
  const Numbers& of(int64_t i) const { return all_.at(static_cast<size_t>(i)); }
  std::vector<Numbers> all_;
  bool answers_;
};

Numbers tokens_of(const Sample& sample) {
  Numbers tokens(static_cast<size_t>(sample.shape()[0]));
  sample.write(tokens.data());
  return tokens;
}
Numbers labels_of(const Sample& sample) { return sample.label().to_vector<int64_t>(); }

// Returns the label of every place of all sequences that is not ignored.
std::multiset<int64_t> all_labels(const Drawn& drawn) {
  std::multiset<int64_t> labels;
  for (int64_t i = 0; i < drawn.size(); ++i)
    for (int64_t k = 0; k < drawn.length(i); ++k)
      if (drawn.label(i, k) != ignored_token) labels.insert(drawn.label(i, k));
  return labels;
}

void add_labels(std::multiset<int64_t>& seen, const Numbers& labels) {
  for (const int64_t label : labels)
    if (label != ignored_token) seen.insert(label);
}

}  // namespace

TEST_CASE("packed rows hold each label once, and no document crosses into another") {
  for (const unsigned seed : testing::draws(60)) {
    std::mt19937 random(seed);
    const bool answers = random() % 2 == 0;
    const auto drawn =
        std::make_shared<Drawn>(random, 1 + random() % 40, 1 + random() % 30, answers);
    const PackedSequences rows(drawn, {.length = 2 + static_cast<int64_t>(random() % 30),
                                       .document_end = document_end,
                                       .seed = seed});
    std::multiset<int64_t> seen;
    RandomStream unused(0, 0, 0);
    for (int64_t row = 0; row < rows.size(); ++row) {
      const Sample sample = rows.load(row, unused);
      const Numbers tokens = tokens_of(sample), labels = labels_of(sample);
      add_labels(seen, labels);
      for (size_t k = 0; k < tokens.size(); ++k) {
        // The end of a document predicts nothing; elsewhere tokens of a document follow each other.
        if (tokens[k] == document_end)
          CHECK(labels[k] == ignored_token);
        else if (k + 1 < tokens.size() && tokens[k + 1] != document_end)
          CHECK(tokens[k + 1] == tokens[k] + 1);
        if (k + 1 < tokens.size() && labels[k] != ignored_token) CHECK(labels[k] == tokens[k + 1]);
      }
    }
    CHECK(seen == all_labels(*drawn));
    CHECK(rows.fill() > 0);
    CHECK(rows.fill() <= 1);
  }
}

TEST_CASE("first fit fills rows, in an order that the seed draws") {
  std::mt19937 random(3);
  const auto drawn = std::make_shared<Drawn>(random, 4000, 60);
  const PackedOptions options{.length = 128, .document_end = document_end, .seed = 1};
  const PackedSequences rows(drawn, options), again(drawn, options);
  CHECK(rows.fill() > 0.95);
  RandomStream unused(0, 0, 0);
  CHECK(tokens_of(rows.load(5, unused)) == tokens_of(again.load(5, unused)));
  CHECK(rows.identity() == again.identity());
  PackedOptions other = options;
  other.seed = 2;
  const PackedSequences others(drawn, other);
  CHECK_FALSE(tokens_of(rows.load(5, unused)) == tokens_of(others.load(5, unused)));
  CHECK_FALSE(rows.identity() == others.identity());
}

TEST_CASE("sequences that may not be split lose their end, or are left out without a label") {
  std::mt19937 random(5);
  const auto drawn = std::make_shared<Drawn>(random, 50, 40);
  const PackedSequences rows(drawn, {.length = 16, .document_end = document_end, .split = false});
  std::multiset<int64_t> seen;
  RandomStream unused(0, 0, 0);
  for (int64_t row = 0; row < rows.size(); ++row)
    add_labels(seen, labels_of(rows.load(row, unused)));
  std::multiset<int64_t> want;
  for (int64_t i = 0; i < drawn->size(); ++i)
    for (int64_t k = 0; k < std::min<int64_t>(drawn->length(i), 16); ++k)
      if (drawn->label(i, k) != ignored_token) want.insert(drawn->label(i, k));
  CHECK(seen == want);
}

TEST_CASE("padded rows are as long as the longest of their batch, or as all") {
  std::mt19937 random(7);
  const auto drawn = std::make_shared<Drawn>(random, 20, 30);
  RandomStream unused(0, 0, 0);
  const PaddedSequences rows(drawn, {.length = 20, .multiple = 4, .pad_token = 99});
  DataLoader loader(rows, {.batch_size = 5, .workers = 1});
  std::multiset<int64_t> seen;
  int64_t row = 0;
  for (const auto& [tokens, labels] : loader) {
    int64_t longest = 0;
    for (int64_t i = 0; i < 5; ++i)
      longest = std::max(longest, std::min<int64_t>(20, drawn->length(row + i)));
    CHECK(tokens.size(1) == (longest + 3) / 4 * 4);
    for (int64_t i = 0; i < 5; ++i, ++row) {
      const Numbers own =
          untracked::contiguous(untracked::select(tokens, 0, i)).to_vector<int64_t>();
      const Numbers label =
          untracked::contiguous(untracked::select(labels, 0, i)).to_vector<int64_t>();
      for (size_t k = 0; k < own.size(); ++k) {
        const auto place = static_cast<int64_t>(k);
        const bool inside = place < drawn->length(row);
        if (!inside) CHECK(own[k] == 99);
        CHECK(label[k] == (inside ? drawn->label(row, place) : ignored_token));
      }
    }
  }
  CHECK(row == 20);
  const PaddedSequences fixed(drawn, {.length = 32, .to_length = true});
  CHECK(fixed.load(3, unused).shape() == Shape{32});
  CHECK(contains(error_of([&] { PaddedSequences(drawn, {.length = 30, .multiple = 4}); }),
                 "a length that is a multiple"));
}

TEST_CASE("documents of token files are parted at their end tokens") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::vector<uint16_t>& tokens) {
    folder.write(name, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2});
    return std::make_shared<const TokenFile>((folder / name).string());
  };
  const auto a = write("a.bin", {0, 5, 6, 0, 0, 7, 0}), b = write("b.bin", {8, 9});
  const TokenDocuments documents({a, b}, document_end);
  REQUIRE(documents.size() == 3);
  const auto read = [&](int64_t i) {
    Numbers tokens(static_cast<size_t>(documents.length(i))), labels(tokens.size());
    documents.read(i, 0, tokens, labels);
    CHECK(labels.back() == ignored_token);
    CHECK(std::equal(labels.begin(), labels.end() - 1, tokens.begin() + 1));
    return tokens;
  };
  CHECK(read(0) == Numbers{5, 6, 0});
  CHECK(read(1) == Numbers{7, 0});
  CHECK(read(2) == Numbers{8, 9, 0});  // its end is added
  Numbers token(1), label(1);
  documents.read(2, 1, token, label);
  CHECK(token[0] == 9);
  CHECK(label[0] == 0);
  const TokenFilesDataset windows({{a}}, {.length = 3, .document_end = document_end});
  RandomStream unused(0, 0, 0);
  CHECK(labels_of(windows.load(0, unused)) == Numbers{ignored_token, 6, 0});
  CHECK(contains(error_of([&] {
                   TokenDocuments({write("c.bin", {0, 0})}, document_end);
                 }),
                 "no document"));
}

TEST_CASE("packed and padded rows are seen once on 4, 2 and 1 ranks, from any place of an epoch") {
  for (const unsigned seed : testing::draws(20)) {
    std::mt19937 random(seed);
    const auto drawn = std::make_shared<Drawn>(random, 150 + random() % 50, 12);
    std::shared_ptr<const Dataset> data;
    if (random() % 2 == 0)
      data = std::make_shared<PackedSequences>(
          drawn, PackedOptions{.length = 16, .document_end = document_end, .seed = seed});
    else
      data = std::make_shared<PaddedSequences>(drawn, PaddedOptions{.length = 16});
    std::multiset<int64_t> seen;
    int64_t batch = 0;
    const int64_t whole = data->size() / 8;  // batches of all ranks together
    for (const int ranks : {4, 2, 1}) {
      const int64_t end = ranks == 1 ? whole : batch + static_cast<int64_t>(random() % 4);
      for (int rank = 0; rank < ranks; ++rank) {
        DataLoader loader(data, {.batch_size = 8 / ranks,
                                 .shuffle = true,
                                 .drop_last = true,
                                 .workers = static_cast<int>(random() % 2),
                                 .seed = seed,
                                 .rank = rank,
                                 .world_size = ranks});
        loader.load_state({.epoch = 0, .batch = batch});
        int64_t at = batch;
        for (auto it = loader.begin(); at < end && it != loader.end(); ++it, ++at)
          add_labels(seen, it->label.to_vector<int64_t>());
        CHECK(at == end);
      }
      batch = end;
    }
    // What drop_last leaves out: the rows after the last whole batch of the common order.
    const auto order = RandomSampler(data->size(), seed).indices(0);
    RandomStream unused(0, 0, 0);
    for (int64_t i = whole * 8; i < data->size(); ++i)
      add_labels(seen, labels_of(data->load(order[static_cast<size_t>(i)], unused)));
    CHECK(seen == all_labels(*drawn));
  }
}
