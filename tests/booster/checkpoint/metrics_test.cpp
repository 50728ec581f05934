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
        loader.set_epoch(0);
        Predictions rows(loader);
        for (auto& [value, label] : loader) rows.add(stack({value, value + 1}, 1));
        std::vector<double> all;
        const DistributedSampler order(n, {.shuffle = options.shuffle, .seed = options.seed});
        for (const int64_t i : order.indices(0))
          for (const double x : {0.0, 1.0}) all.push_back(static_cast<double>(i) + x);
        CHECK(rows.all(world.group()).to_vector<double>() == all);
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

TEST_CASE("predictions that do not fit are errors") {
  DataLoader loader = loader_of(4, {.batch_size = 4});
  Predictions rows(loader);
  CHECK_THROWS_WITH_AS(rows.all(), doctest::Contains("no rank has a sample"), Error);
  for (auto& [value, label] : loader) rows.add(value);
  CHECK_THROWS_WITH_AS(rows.add(ones({4, 2})), doctest::Contains("another dtype or shape"), Error);
  CHECK_THROWS_WITH_AS(rows.add(scalar(1)), doctest::Contains("a row for each sample"), Error);
  rows.reset();
  CHECK_THROWS_AS(rows.all(), Error);
}

TEST_CASE("the area under the ROC curve counts pairs, and F1 counts hits") {
  for (const unsigned seed : testing::draws(200)) {
    std::mt19937 random(seed);
    const int64_t n = 2 + static_cast<int64_t>(random() % 30);
    std::vector<float> scores, labels;
    for (int64_t i = 0; i < n; ++i) {
      scores.push_back(static_cast<float>(random() % 7));
      labels.push_back(static_cast<float>(i < 2 ? i : random() % 2));
    }
    double won = 0, pairs = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        if (labels[static_cast<size_t>(i)] == 0 || labels[static_cast<size_t>(j)] == 1) continue;
        const float a = scores[static_cast<size_t>(i)], b = scores[static_cast<size_t>(j)];
        won += a > b ? 1 : a == b ? 0.5 : 0;
        ++pairs;
      }
    const Tensor score = from_vector(scores, {n}), label = from_vector(labels, {n});
    CHECK(roc_auc(score, label) == doctest::Approx(won / pairs));
    const Tensor guess = cast(less(score, 3.5), DType::i64), truth = cast(label, DType::i64);
    const Tensor counts = confusion_matrix(guess, truth, 2);
    double hits = 0, positives = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool guessed = scores[static_cast<size_t>(i)] < 3.5F;
      const bool is = labels[static_cast<size_t>(i)] == 1;
      hits += guessed && is;
      positives += static_cast<double>(guessed) + is;
    }
    CHECK(counts[{1, 1}].item() == hits);
    CHECK(sum(counts).item() == n);
    CHECK(f1_scores(counts)[1].item() == doctest::Approx(2 * hits / positives));
  }
  CHECK_THROWS_WITH_AS(roc_auc(ones({2}), ones({2})), doctest::Contains("want both labels"), Error);
  CHECK_THROWS_WITH_AS(roc_auc(full({2}, NAN), arange(2)), doctest::Contains("is nan"), Error);
  CHECK_THROWS_WITH_AS(confusion_matrix(arange(3), arange(3), 2),
                       doctest::Contains("no such class; got 2"), Error);
  CHECK(f1_scores(zeros({2, 2})).to_vector<double>() == std::vector<double>{0, 0});
}
