#include "tests/data/counted_stream.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

using namespace booster;
using namespace booster::test;

namespace {

struct DrawnStream {
  std::shared_ptr<const CountedStream> stream;
  DataLoaderOptions options;
  int ranks;

  explicit DrawnStream(std::mt19937& random, int shortest = 0) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::vector<int64_t> lengths(static_cast<size_t>(1 + below(below(2) ? 3 : 20)));
    for (int64_t& length : lengths) length = shortest + below(below(4) ? 25 : 2);
    lengths[0] += 6;
    stream = std::make_shared<CountedStream>(lengths, below(2));
    ranks = 1 + below(4);
    options = {.batch_size = 1 + below(7),
               .shuffle = below(2) > 0,
               .workers = below(4),
               .prefetch = 1 + below(4),
               .seed = random(),
               .shuffle_buffer = 1 + below(40)};
    options.by_length = options.shuffle && below(2);
  }
};

// Returns the number of batches that every rank has.
int64_t least_batches(const SeenByRanks& seen) {
  const auto least = std::ranges::min_element(seen.batches, {}, &std::vector<SeenBatch>::size);
  return static_cast<int64_t>(least->size());
}

// Reads an epoch in several runs, each on another number of ranks and workers, and checks each
// against the run that goes on. Returns the labels that counted.
std::multiset<int64_t> seen_in_runs(const DrawnStream& drawn, std::mt19937& random) {
  std::multiset<int64_t> labels;
  DataLoaderOptions options = drawn.options;
  int ranks = drawn.ranks;
  LoaderState from;
  SeenByRanks whole = seen_by(drawn.stream, options, ranks);
  for (int run = 0; run < 3 && least_batches(whole) > 0; ++run) {
    const auto stop = 1 + static_cast<int64_t>(random() % unsigned(least_batches(whole)));
    options.workers = static_cast<int>(random() % 4);
    options.prefetch = 1 + static_cast<int>(random() % 4);
    const SeenByRanks part = seen_by(drawn.stream, options, ranks, from, stop);
    for (size_t rank = 0; rank < part.batches.size(); ++rank) {
      auto& rest = whole.batches[rank];
      CHECK(part.batches[rank] == std::vector(rest.begin(), rest.begin() + stop));
      rest.erase(rest.begin(), rest.begin() + stop);
    }
    labels.merge(part.labels());
    from = part.joined();
    const SeenByRanks resumed = seen_by(drawn.stream, options, ranks, from);
    CHECK(resumed.batches == whole.batches);
    ranks = 1 + static_cast<int>(random() % 4);
    options.batch_size = 1 + static_cast<int64_t>(random() % 7);
    whole = seen_by(drawn.stream, options, ranks, from);
  }
  labels.merge(whole.labels());
  return labels;
}

int64_t shorter_share(const SeenByRanks& seen, int64_t batch_size) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& rank : seen.batches) {
    int64_t samples = 0;
    for (const SeenBatch& batch : rank) samples += static_cast<int64_t>(batch.labels.size());
    least = std::min(least, samples / batch_size);
  }
  return least;
}

}  // namespace

TEST_CASE("a stream on one rank gives its samples in order, with any number of workers") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>{5, 0, 4}, true);
  for (const int workers : {0, 1, 3}) {
    const auto seen = seen_by(stream, {.batch_size = 4, .workers = workers}, 1).batches[0];
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].labels == std::vector<int64_t>{0, 1, 2, 3});
    CHECK(seen[1].labels == std::vector<int64_t>{4, 2000, 2001, 2002});
    CHECK(seen[2].labels == std::vector<int64_t>{2003});
    CHECK(seen_by(stream, {.batch_size = 4, .drop_last = true, .workers = workers}, 1)
              .batches[0]
              .size() == 2);
  }
}

TEST_CASE("drawn streams: each sample comes once in an epoch, in any runs, ranks and workers") {
  for (const unsigned seed : testing::draws(200)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    DrawnStream drawn(random);
    drawn.options.even_shares = false;
    const SeenByRanks whole = seen_by(drawn.stream, drawn.options, drawn.ranks);
    CHECK(whole.labels() == drawn.stream->all());
    CHECK(seen_in_runs(drawn, random) == drawn.stream->all());
  }
}

TEST_CASE("drawn streams: ranks of uneven shares end together, and each sample counts once") {
  for (const unsigned seed : testing::draws(200)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    DrawnStream drawn(random, 1);
    drawn.options.join = seed % 2;
    const SeenByRanks whole = seen_by(drawn.stream, drawn.options, drawn.ranks);
    CHECK(whole.labels() == drawn.stream->all());
    const auto steps = static_cast<size_t>(least_batches(whole));
    for (const auto& rank : whole.batches) REQUIRE(rank.size() == steps);
    for (size_t step = 0; step < steps; ++step) {
      double weights = 0, samples = 0;
      for (const auto& rank : whole.batches) {
        const SeenBatch& batch = rank[step];
        samples += static_cast<double>(batch.labels.size());
        weights += batch.weight;
        if (drawn.ranks > 1 && !drawn.options.join)
          CHECK(static_cast<int64_t>(batch.inputs.size()) == drawn.options.batch_size);
        if (drawn.options.join)
          CHECK(batch.inputs.size() == std::max<size_t>(batch.labels.size(), 1));
      }
      CHECK(weights == doctest::Approx(drawn.ranks));
      CHECK(samples > 0);
    }
    CHECK(seen_in_runs(drawn, random) == drawn.stream->all());
  }
}

TEST_CASE("drawn streams: drop_last ends every rank before its first batch that is not full") {
  for (const unsigned seed : testing::draws(200)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    DrawnStream drawn(random);
    DataLoaderOptions uneven = drawn.options;
    uneven.even_shares = false;
    drawn.options.drop_last = true;
    const int64_t full =
        shorter_share(seen_by(drawn.stream, uneven, drawn.ranks), drawn.options.batch_size);
    const SeenByRanks whole = seen_by(drawn.stream, drawn.options, drawn.ranks);
    for (const auto& rank : whole.batches) {
      CHECK(static_cast<int64_t>(rank.size()) == full);
      for (const SeenBatch& batch : rank)
        CHECK(static_cast<int64_t>(batch.labels.size()) == drawn.options.batch_size);
    }
    const auto labels = seen_in_runs(drawn, random);
    CHECK(std::set(labels.begin(), labels.end()).size() == labels.size());
  }
}

TEST_CASE("a stream's sample is augmented alike on any number of ranks, anew in each epoch") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>{6, 6, 6}, true);
  const auto inputs = [&](int ranks, uint64_t epoch) {
    std::map<int64_t, double> by_label;
    const SeenByRanks seen = seen_by(
        stream, {.batch_size = 2, .shuffle = true, .even_shares = false}, ranks, {epoch, 0});
    for (const auto& rank : seen.batches)
      for (const SeenBatch& batch : rank)
        for (size_t i = 0; i < batch.labels.size(); ++i)
          by_label[batch.labels[i]] = batch.inputs[i];
    return by_label;
  };
  CHECK(inputs(1, 0) == inputs(3, 0));
  CHECK(inputs(1, 0) == inputs(2, 0));
  CHECK(inputs(1, 0) != inputs(1, 1));
}

TEST_CASE("a shuffled stream has another order in each epoch, and mixes its shards") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>(4, 50), true);
  DataLoader loader(stream, {.batch_size = 20, .shuffle = true, .shuffle_buffer = 40});
  std::vector<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 2; ++epoch) {
    orders.emplace_back();
    for (auto& [input, label] : loader)
      for (const int64_t value : label.to_vector<int64_t>()) orders.back().push_back(value);
  }
  CHECK(orders[0] != orders[1]);
  std::set<int64_t> shards;
  for (int i = 0; i < 8; ++i) shards.insert(orders[0][static_cast<size_t>(i)] / shard_step);
  CHECK(shards.size() == 4);
  std::ranges::sort(orders[0]);
  CHECK_FALSE(std::ranges::adjacent_find(orders[0]) != orders[0].end());
}

TEST_CASE("by_length puts records of similar lengths into one batch, on any number of ranks") {
  const auto stream = stream_of([](int64_t, uint64_t) {
    return [i = int64_t{0}]() mutable -> std::optional<Sample> {
      if (i == 200) return std::nullopt;
      const int64_t length = 1 + i * 37 % 50;
      return Sample(full({length}, 1), i++);
    };
  });
  for (const int ranks : {1, 2}) {
    std::vector<int64_t> widths, labels;
    for (int rank = 0; rank < ranks; ++rank) {
      DataLoader loader(stream, {.batch_size = 10 / ranks,
                                 .shuffle = true,
                                 .rank = rank,
                                 .world_size = ranks,
                                 .even_shares = false,
                                 .shuffle_buffer = 100,
                                 .by_length = true,
                                 .collate = pad_to_longest({{"image", 0}})});
      for (auto& [input, label] : loader) {
        const auto ones = input.to_vector<float>();  // the rest of a row is padding
        const auto width = input.size(1);
        int64_t least = width;
        for (int64_t row = 0; row < input.size(0); ++row)
          least = std::min(least, std::count(ones.begin() + row * width,
                                             ones.begin() + (row + 1) * width, 1.0F));
        CHECK(width - least <= 6);
        widths.push_back(input.size(1));
        for (const int64_t i : label.to_vector<int64_t>()) labels.push_back(i);
      }
    }
    CHECK_FALSE(std::ranges::is_sorted(widths));
    std::ranges::sort(labels);
    CHECK(labels.size() == 200);
    CHECK(std::ranges::adjacent_find(labels) == labels.end());
  }
  CHECK(contains(error_of([&] { DataLoader(stream, {.by_length = true}); }), "without shuffle"));
}
