#include "core/data/loader.h"

#include "core/data/dataset.h"
#include "platform/error.h"
#include "tests/data/drawn.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace booster;

namespace {
using Indices = std::vector<int64_t>;
}

TEST_CASE("a random order is a permutation, another one each epoch, the same for the same seed") {
  const RandomSampler sampler(100, 3);
  Indices first = sampler.indices(0);
  CHECK(first == RandomSampler(100, 3).indices(0));
  CHECK(first != sampler.indices(1));
  CHECK(first != RandomSampler(100, 4).indices(0));
  std::sort(first.begin(), first.end());
  CHECK(first == SequentialSampler(100).indices(5));
}

TEST_CASE("ranks get equal shares as in PyTorch, the end filled up from the front") {
  const auto share = [](int64_t n, int rank, bool drop_last) {
    return DistributedSampler(
               n, {.rank = rank, .world_size = 4, .shuffle = false, .drop_last = drop_last})
        .indices(0);
  };
  CHECK(share(10, 0, false) == Indices{0, 4, 8});
  CHECK(share(10, 1, false) == Indices{1, 5, 9});
  CHECK(share(10, 2, false) == Indices{2, 6, 0});
  CHECK(share(10, 3, false) == Indices{3, 7, 1});
  CHECK(share(10, 3, true) == Indices{3, 7});
  CHECK(share(1, 3, false) == Indices{0});
  CHECK(share(8, 3, true) == Indices{3, 7});
}

TEST_CASE("without even shares every sample belongs to one rank, for any size and ranks") {
  RandomStream random(7, 0, 0);
  for (int draw = 0; draw < 200; ++draw) {
    const int64_t n = 1 + random.below(40);
    const int ranks = static_cast<int>(1 + random.below(9));
    const bool shuffle = random.below(2) == 1;
    Indices all;
    for (int rank = 0; rank < ranks; ++rank) {
      const DistributedSampler sampler(
          n, {.rank = rank, .world_size = ranks, .shuffle = shuffle, .even_shares = false});
      const Indices share = sampler.indices(draw);
      CHECK(static_cast<int64_t>(share.size()) == sampler.size());
      all.insert(all.end(), share.begin(), share.end());
    }
    std::sort(all.begin(), all.end());
    CHECK_MESSAGE(all == SequentialSampler(n).indices(0), n, " samples on ", ranks, " ranks");
  }
}

TEST_CASE("the k-th batches of all ranks are the k-th batch of one process") {
  const Indices alone = RandomSampler(24, 9).indices(2);
  Indices joined;
  for (int i = 0; i < 12; ++i)
    for (int rank = 0; rank < 2; ++rank)
      joined.push_back(
          DistributedSampler(24, {.rank = rank, .world_size = 2, .seed = 9}).indices(2)[i]);
  CHECK(joined == alone);
}

TEST_CASE("repeated augmentation takes timm's samples, each with a repeat of its own") {
  for (const auto& golden : test::golden_json("repeated_augmentation")) {
    CAPTURE(golden.dump());
    const RepeatedAugmentationSampler sampler(golden["size"], {.rank = golden["rank"],
                                                               .world_size = golden["ranks"],
                                                               .shuffle = false,
                                                               .repeats = golden["repeats"]});
    CHECK(sampler.indices(0) == golden["indices"].get<Indices>());
    CHECK(sampler.size() == static_cast<int64_t>(golden["indices"].size()));
  }
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int rank = 0; rank < 2; ++rank) {
    const RepeatedAugmentationSampler sampler(300, {.rank = rank, .world_size = 2, .repeats = 3});
    const Indices mine = sampler.indices(4);
    for (int64_t i = 0; i < sampler.size(); ++i)
      CHECK(seen.insert({mine[static_cast<size_t>(i)], sampler.repeat(i)}).second);
  }
  CHECK(seen.size() == 256);
}

TEST_CASE("samplers refuse what cannot be") {
  CHECK_THROWS_AS(RepeatedAugmentationSampler(4, {.repeats = 0}), Error);
  CHECK_THROWS_AS(RepeatedAugmentationSampler(4, {.rank = 1}), Error);
  CHECK_THROWS_AS(RandomSampler(0), Error);
  CHECK_THROWS_AS(DistributedSampler(4, {.rank = 2, .world_size = 2}), Error);
  CHECK_THROWS_AS(DistributedSampler(4, {.rank = 0, .world_size = 0}), Error);
  CHECK_THROWS_AS(DistributedSampler(1, {.world_size = 2, .drop_last = true}), Error);
  CHECK_THROWS_AS(
      DistributedSampler(4, {.world_size = 2, .drop_last = true, .even_shares = false}), Error);
}
