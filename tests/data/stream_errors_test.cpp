// What a loader of a stream refuses, and how streams, samples and ranks fail.
#include "tests/data/counted_stream.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::test;

TEST_CASE("a stream has no length, and a loader of it refuses what needs one") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>{5}, true);
  DataLoader loader(stream, {.batch_size = 2});
  CHECK(contains(error_of([&] { loader.size(); }), "unknown before its end"));
  CHECK(contains(error_of([&] { stream->size(); }), "unknown before its end"));
  CHECK(contains(
      error_of([&] { DataLoader(stream, {.sampler = std::make_shared<SequentialSampler>(5)}); }),
      "a stream is read in order; got a sampler"));
  CHECK(contains(error_of([&] { DataLoader(stream, {.repeated_augmentation = 2}); }),
                 "got repeated_augmentation"));
  CHECK(contains(error_of([&] { DataLoader(stream, {.shuffle_buffer = 0}); }), "shuffle_buffer"));
  CHECK(contains(error_of([&] { DataLoader(stream, {.rank = 1, .world_size = 2}); }),
                 "must end together"));
}

TEST_CASE("a loader refuses a position that is none in its stream, and keeps its own") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>{5, 5}, true);
  const LoaderState at = seen_by(stream, {.batch_size = 2}, 1, {}, 1).states[0];
  DataLoader loader(stream, {.batch_size = 2});
  loader.load_state(at);
  const LoaderState own = loader.state();
  const auto refusal = [&](const LoaderState& state) {
    return error_of([&] { loader.load_state(state); });
  };
  CHECK(contains(refusal({0, 3}), "no place in the stream for batch 3"));
  for (const char* text :
       {"x", "{}", "[]", "3", R"({"ranks":1,"shards":2,"whole":1,"repeats":false,"rest":[]})",
        R"({"ranks":1,"shards":2,"whole":false,"repeats":false,"rest":[2]})",
        R"({"ranks":1,"shards":2,"whole":false,"repeats":false,"rest":[[0,1,"",2,3,0]]})"})
    CHECK(contains(refusal({0, 1, text}), "the position in the stream"));
  DataLoader other(std::make_shared<CountedStream>(std::vector<int64_t>{5}, true), {});
  CHECK(contains(error_of([&] { other.load_state(at); }), "another number of shards"));
  const auto two = seen_by(stream, {.batch_size = 2}, 2, {}, 1).states[0];
  CHECK(contains(refusal(two), "saved by 2 ranks"));
  CHECK(loader.state() == own);
}

TEST_CASE("an endless stream is read as far as the loop goes, and continues there") {
  const auto endless = stream_of([](int64_t, uint64_t) {
    return
        [i = int64_t{0}]() mutable -> std::optional<Sample> { return Sample(full({1}, 0.5), i++); };
  });
  DataLoader loader(endless, {.batch_size = 3});
  int64_t next = 0;
  for (int run = 0; run < 3; ++run) {
    for (auto& [input, label] : loader) {
      for (const int64_t value : label.to_vector<int64_t>()) CHECK(value == next++);
      if (next % 9 == 0) break;
    }
    loader.load_state(loader.state());
  }
  CHECK(next == 27);
}

TEST_CASE("an error of a stream ends the epoch with its text, on every rank") {
  struct Breaking : StreamDataset {
    int64_t shards() const override { return 2; }
    std::unique_ptr<StreamReader> open(int64_t shard, uint64_t) const override {
      struct Reader : StreamReader {
        explicit Reader(int64_t shard) : shard(shard) {}
        MakeSample next() override {
          if (shard == 1 && at == 5) fail_data("the file ends within a record");
          return [i = at++](RandomStream&) { return Sample(full({1}, 0.5), i); };
        }
        int64_t shard, at = 0;
      };
      return std::make_unique<Reader>(shard);
    }
  };
  const auto stream = std::make_shared<Breaking>();
  for (const int workers : {0, 2}) {
    ThreadRanks together(2);
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        DataLoader loader(stream, {.batch_size = 2,
                                   .workers = workers,
                                   .rank = rank,
                                   .world_size = 2,
                                   .gather = [&](int64_t n) { return together.gather(rank, n); }});
        errors[static_cast<size_t>(rank)] = error_of([&] {
          for (auto& batch : loader) (void)batch;
        });
      });
    for (auto& thread : threads) thread.join();
    CHECK(contains(errors[1], "the file ends within a record"));
    CHECK(contains(errors[0], "rank 1 of those that share the stream failed"));
  }
}

TEST_CASE("a rank that gives up ends the loop of all ranks, which go on where it was") {
  const auto stream = std::make_shared<CountedStream>(std::vector<int64_t>{20, 20}, true);
  ThreadRanks together(2);
  std::vector<std::multiset<int64_t>> seen(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      int asked = 0;
      DataLoader loader(stream, {.batch_size = 3,
                                 .workers = 0,
                                 .rank = rank,
                                 .world_size = 2,
                                 .give_up = [&] { return rank == 1 && ++asked == 10; },
                                 .gather = [&](int64_t n) { return together.gather(rank, n); }});
      int loops = 0;
      while (loader.state().epoch == 0) {
        ++loops;
        for (auto& [input, label] : loader)
          for (int64_t i = 0; i < loader.counted(); ++i)
            seen[static_cast<size_t>(rank)].insert(label.to_vector<int64_t>()[size_t(i)]);
      }
      CHECK(loops == 2);
    });
  for (auto& thread : threads) thread.join();
  seen[0].merge(seen[1]);
  CHECK(seen[0] == stream->all());
}

TEST_CASE("bad samples of a stream are skipped and listed") {
  struct Spoilt : StreamDataset {
    std::unique_ptr<StreamReader> open(int64_t, uint64_t) const override {
      struct Reader : StreamReader {
        MakeSample next() override {
          if (at == 7) return nullptr;
          return [i = at++](RandomStream&) {
            if (i == 3) fail_data("sample 3 is bad");
            return Sample(full({1}, 0.5), i);
          };
        }
        int64_t at = 0;
      };
      return std::make_unique<Reader>();
    }
  };
  DataLoader loader(Spoilt(), {.batch_size = 2, .on_bad_image = BadImagePolicy::skip});
  std::vector<int64_t> labels;
  for (auto& [input, label] : loader)
    for (const int64_t value : label.to_vector<int64_t>()) labels.push_back(value);
  CHECK(labels == std::vector<int64_t>{0, 1, 2, 4, 5, 6});
  REQUIRE(loader.bad_images().size() == 1);
  CHECK(loader.bad_images()[0].index == 3);
  CHECK(contains(loader.bad_images()[0].reason, "sample 3 is bad"));
}
