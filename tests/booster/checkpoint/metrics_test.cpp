// Means over the samples of an evaluation, each counted once.
#include "booster/training/boosted.h"

#include "booster/booster.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <random>
#include <utility>

using namespace booster;

namespace {

DataLoader loader_of(int64_t n, DataLoaderOptions options) {
  options.workers = 0;
  return DataLoader(TensorDataset(arange(n, {.dtype = DType::f64}), arange(n)), options);
}

}  // namespace

TEST_CASE("rank: means over uneven shares" * doctest::skip()) {
  const World world = launch_from_env();
  for (int64_t n = 1; n < 30; n += 3)
    for (int64_t batch_size = 1; batch_size < 6; ++batch_size)
      for (const int mode : {0, 1, 2, 3}) {
        DataLoaderOptions options = {.batch_size = batch_size, .shuffle = mode % 2 == 0,
                                     .rank = world.rank, .world_size = world.size};
        if (mode == 1) options.even_shares = false;
        if (mode == 2) options.join = true;
        DataLoader loader = loader_of(n, options);
        MeanMetric metric(loader);
        for (auto& [value, label] : loader) metric.add(mul(value, value));
        double wanted = 0;
        for (int64_t i = 0; i < n; ++i) wanted += static_cast<double>(i * i) / n;
        CAPTURE(n);
        CAPTURE(batch_size);
        CAPTURE(mode);
        CHECK(metric.value(world.group()) == doctest::Approx(wanted));
      }
}
TEST_CASE("a mean counts each sample once on several ranks, whatever their shares") {
  for (const int ranks : {2, 3})
    CHECK(failures(Ranks("rank: means over uneven shares", ranks).wait(120)) == "");
}

TEST_CASE("rank: means over streams" * doctest::skip()) {
  const World world = launch_from_env();
  for (const unsigned trial : testing::draws(200)) {
    CAPTURE(trial);
    std::mt19937 random(trial);
    const auto shards = 1 + static_cast<int64_t>(random() % 7);
    const auto n = shards + 7 + static_cast<int64_t>(random() % 30);
    const auto numbers = stream_of(
        [=](int64_t shard, uint64_t) {
          return [=, i = shard]() mutable -> std::optional<Sample> {
            if (i >= n) return std::nullopt;
            const int64_t number = std::exchange(i, i + shards);
            return Sample(full({}, static_cast<double>(number), {.dtype = DType::f64}), number);
          };
        },
        shards);
    DataLoaderOptions options = {.batch_size = 1 + static_cast<int64_t>(random() % 5),
                                 .shuffle = random() % 2 == 0,
                                 .workers = static_cast<int>(random() % 2),
                                 .rank = world.rank,
                                 .world_size = world.size,
                                 .gather = gather_numbers(world.group())};
    const unsigned mode = random() % 3;
    if (mode == 1) options.even_shares = false;
    if (mode == 2) options.join = true;
    DataLoader loader(numbers, options);
    MeanMetric metric(loader);
    for (auto& [value, label] : loader) metric.add(mul(value, value));
    double wanted = 0;
    for (int64_t i = 0; i < n; ++i) wanted += static_cast<double>(i * i) / static_cast<double>(n);
    CHECK(metric.value(world.group()) == doctest::Approx(wanted));
  }
}
TEST_CASE("a mean counts each sample of a stream once on several ranks") {
  for (const int ranks : {1, 2, 3})
    CHECK(failures(Ranks("rank: means over streams", ranks).wait(120)) == "");
}

TEST_CASE("one rank's mean is that of all samples, and starts anew") {
  DataLoader loader = loader_of(7, {.batch_size = 3});
  MeanMetric metric(loader);
  CHECK_THROWS_WITH_AS(metric.value(), doctest::Contains("no rank has a sample"), Error);
  for (int epoch = 0; epoch < 2; ++epoch) {
    metric.reset();
    for (auto& [value, label] : loader) metric.add(value);
    CHECK(metric.value() == 3);
  }
  CHECK_THROWS_AS(metric.add(zeros({2, 2})), Error);
  CHECK_THROWS_AS(metric.add(Tensor()), Error);
}

TEST_CASE("top_k_correct ranks as a plain loop does, ties and nans too") {
  for (const unsigned trial : testing::draws(300)) {
    std::mt19937 random(trial);
    const int64_t n = 1 + random() % 5, classes = 1 + random() % 6, k = 1 + random() % 4;
    std::vector<float> logits(n * classes);
    std::vector<int64_t> labels(n);
    for (float& x : logits)
      x = random() % 9 == 0 ? NAN : static_cast<float>(random() % 4);
    for (int64_t& label : labels) label = random() % classes;
    std::vector<float> wanted;
    for (int64_t i = 0; i < n; ++i) {
      const float* row = logits.data() + i * classes;
      const float own = row[labels[i]];
      int64_t before = 0;
      for (int64_t c = 0; c < classes; ++c)
        before += std::isnan(row[c]) || row[c] > own || (row[c] == own && c < labels[i]);
      wanted.push_back(!std::isnan(own) && before < k ? 1 : 0);
    }
    const Tensor y = from_vector(logits, {n, classes}), label = from_vector(labels, {n});
    CHECK(top_k_correct(y, label, k).to_vector<float>() == wanted);
  }
  CHECK_THROWS_AS(top_k_correct(zeros({2, 3}), zeros({2})), Error);
  CHECK_THROWS_AS(top_k_correct(zeros({2, 3}), arange(2), 0), Error);
}
