#include "core/tensor/memory/allocator.h"
#include "tests/data/pictures.h"

#include <set>
#include <thread>

using namespace booster;
using namespace booster::test;

namespace {

TensorDataset numbers(int64_t n) {
  return TensorDataset(arange(n, {.dtype = DType::f32}), arange(n));
}

std::vector<int64_t> labels(DataLoader& loader) {
  std::vector<int64_t> all;
  for (auto& [image, label] : loader)
    for (int64_t value : label.to_vector<int64_t>()) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("batches are the same bits with 0, 1, 2 and 4 workers") {
  const Pictures pictures(10);
  DataLoader alone(pictures.dataset(), {.batch_size = 6, .shuffle = true, .workers = 0});
  const auto first = epoch(alone), second = epoch(alone);
  CHECK(first.size() == 4);
  CHECK(first != second);
  for (int workers : {1, 2, 4}) {
    DataLoader loader(pictures.dataset(),
                      {.batch_size = 6, .shuffle = true, .workers = workers, .prefetch = 3});
    CHECK(epoch(loader) == first);
    CHECK(epoch(loader) == second);
  }
}

TEST_CASE("a batch holds f32 images channels first and i64 labels, in the sampler's order") {
  const Pictures pictures(3);
  const ImageFolder dataset = pictures.dataset();
  DataLoader loader(dataset, {.batch_size = 4});
  CHECK(loader.size() == 2);
  int64_t seen = 0;
  for (auto& [image, label] : loader) {
    CHECK(image.dtype() == DType::f32);
    CHECK(label.dtype() == DType::i64);
    CHECK(image.shape() == Shape{seen ? 2 : 4, 3, 16, 16});
    for (int64_t value : label.to_vector<int64_t>()) CHECK(value == dataset.label(seen++));
  }
  CHECK(seen == 6);
}

TEST_CASE("drop_last leaves out the last short batch") {
  DataLoader loader(numbers(10), {.batch_size = 4, .drop_last = true});
  CHECK(loader.size() == 2);
  CHECK(labels(loader) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(contains(error_of([] { DataLoader(numbers(3), {.batch_size = 4, .drop_last = true}); }),
                 "no full batch"));
}

TEST_CASE("each loop is the next epoch, set_epoch chooses one, a loop left early is over") {
  DataLoader loader(numbers(50), {.batch_size = 8, .shuffle = true});
  const auto zero = labels(loader), one = labels(loader);
  CHECK(zero != one);
  loader.set_epoch(0);
  CHECK(labels(loader) == zero);
  loader.set_epoch(0);
  for (auto& batch : loader) {
    CHECK(batch.image.size(0) == 8);
    break;
  }
  CHECK(labels(loader) == one);
}

TEST_CASE("preparing an epoch changes neither its batches nor where the loader stands") {
  const Pictures pictures(10);
  for (int workers : {0, 2}) {
    const DataLoaderOptions options = {.batch_size = 6, .shuffle = true, .workers = workers};
    DataLoader plain(pictures.dataset(), options), prepared(pictures.dataset(), options);
    for (int i = 0; i < 3; ++i) {
      const LoaderState state = prepared.state();
      prepared.prepare();
      prepared.prepare();
      CHECK(prepared.state() == state);
      CHECK(epoch(prepared) == epoch(plain));
    }
    prepared.prepare();
    prepared.load_state({1, 2});  // not what was prepared
    plain.load_state({1, 2});
    CHECK(epoch(prepared) == epoch(plain));
  }
}

TEST_CASE("preparing the next epoch ends the one that runs") {
  DataLoader loader(numbers(10), {.batch_size = 2});
  int64_t batches = 0;
  for ([[maybe_unused]] auto& batch : loader)
    if (++batches == 2) loader.prepare();
  CHECK(batches == 2);
  CHECK(labels(loader).size() == 10);
  CHECK(loader.state() == LoaderState{2, 0});
}

TEST_CASE("a loader goes on where another one stood, without reading what came before") {
  const Pictures pictures(10);
  const DataLoaderOptions options = {.batch_size = 4, .shuffle = true};
  DataLoader whole(pictures.dataset(), options);
  epoch(whole);
  const auto second = epoch(whole);

  DataLoader interrupted(pictures.dataset(), options);
  epoch(interrupted);
  LoaderState state;
  int seen = 0;
  for (auto& batch : interrupted) {
    CHECK(batch.image.defined());
    if (++seen == 3) break;
  }
  state = interrupted.state();
  CHECK(state == LoaderState{1, 3});

  struct Counting : Dataset {
    explicit Counting(ImageFolder inner) : inner(std::move(inner)) {}
    int64_t size() const override { return inner.size(); }
    Sample load(int64_t index, RandomStream& random) const override {
      ++*loads;
      return inner.load(index, random);
    }
    ImageFolder inner;
    std::shared_ptr<std::atomic<int>> loads = std::make_shared<std::atomic<int>>(0);
  };
  const Counting counting(pictures.dataset());
  DataLoader resumed(counting, options);
  resumed.load_state(state);
  CHECK(resumed.state() == state);
  CHECK(epoch(resumed) == std::vector(second.begin() + 3, second.end()));
  CHECK(*counting.loads == 8);
  CHECK(resumed.state() == LoaderState{2, 0});
  CHECK_THROWS_AS(resumed.load_state({1, 6}), Error);

  DataLoader at_end(pictures.dataset(), options);
  at_end.load_state({1, 5});
  CHECK(at_end.state() == LoaderState{1, 5});
  CHECK(epoch(at_end).empty());
  CHECK(at_end.state() == LoaderState{2, 0});
}

TEST_CASE("after its last batch an epoch is still that epoch in the loop, and over behind it") {
  DataLoader loader(numbers(10), {.batch_size = 4, .shuffle = true});
  for (uint64_t epoch : {0, 1}) {
    CHECK(loader.state() == LoaderState{epoch, 0});
    int64_t batches = 0;
    for ([[maybe_unused]] auto& batch : loader)
      CHECK(loader.state() == LoaderState{epoch, ++batches});
    CHECK(batches == 3);
  }
  CHECK(loader.state() == LoaderState{2, 0});
}

TEST_CASE("ranks together see what one process sees") {
  DataLoader alone(numbers(16), {.batch_size = 4, .shuffle = true});
  const auto all = labels(alone);
  std::vector<std::vector<int64_t>> shares;
  for (int rank = 0; rank < 2; ++rank) {
    DataLoader loader(numbers(16),
                      {.batch_size = 2, .shuffle = true, .rank = rank, .world_size = 2});
    shares.push_back(labels(loader));
  }
  for (int i = 0; i < 16; ++i) CHECK(shares[i % 2][i / 2] == all[i]);
}

TEST_CASE("an evaluation counts every sample once, on any number of ranks") {
  RandomStream random(11, 0, 0);
  for (int draw = 0; draw < 60; ++draw) {
    const int64_t n = 1 + random.below(23), batch_size = 1 + random.below(5);
    const int ranks = static_cast<int>(1 + random.below(6));
    std::multiset<int64_t> seen, once;
    for (int64_t i = 0; i < n; ++i) once.insert(i);
    for (int rank = 0; rank < ranks; ++rank) {
      DataLoader loader(numbers(n), {.batch_size = batch_size,
                                     .workers = static_cast<int>(random.below(3)),
                                     .rank = rank,
                                     .world_size = ranks,
                                     .even_shares = false});
      for (const int64_t label : labels(loader)) seen.insert(label);
    }
    CHECK_MESSAGE(seen == once, n, " samples on ", ranks, " ranks");
  }
}

TEST_CASE("a consumer that gives up waits no longer, and finds its batch again") {
  using Flag = std::shared_ptr<std::atomic<bool>>;
  struct Held : Dataset {
    explicit Held(Flag may_go) : go(std::move(may_go)) {}
    int64_t size() const override { return 16; }
    Sample load(int64_t index, RandomStream&) const override {
      while (index >= 4 && !*go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {zeros({2}), index};
    }
    Flag go;
  };
  for (const int workers : {0, 1}) {
    const auto gave_up = std::make_shared<std::atomic<bool>>(false),
               go = std::make_shared<std::atomic<bool>>(false);
    DataLoader loader(Held(go), {.batch_size = 4, .workers = workers, .give_up = [gave_up] {
                                   return gave_up->load();
                                 }});
    auto batch = loader.begin();
    REQUIRE(batch != loader.end());
    std::thread later([gave_up, go, workers] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      *gave_up = true;
      if (workers == 0) *go = true;  // it loads itself, and gives up between samples
    });
    ++batch;  // never returns unless it gives up
    later.join();
    CHECK(batch == loader.end());
    *go = true;
    CHECK(loader.state() == LoaderState{0, 1});
    *gave_up = false;
    CHECK(labels(loader).size() == 12);
  }
}

// Returns the number of epochs until three in a row allocate nothing, at most `limit`.
int epochs_until_steady(DataLoader& loader, int limit) {
  int epochs = 0;
  for (int quiet = 0; quiet < 3 && epochs < limit; ++epochs) {
    const int64_t before = allocator_stats().system_allocations;
    epoch(loader);
    quiet = allocator_stats().system_allocations == before ? quiet + 1 : 0;
  }
  return epochs;
}

TEST_CASE("steady epochs ask the system for no memory") {
  const Pictures pictures(16);
  DataLoader alone(pictures.dataset(), {.batch_size = 8, .workers = 0});
  CHECK(epochs_until_steady(alone, 50) <= 4);  // the first epoch may allocate
  // The memory that workers hold at once depends on timing; it grows to the total that all can
  // hold.
  DataLoader threaded(pictures.dataset(), {.batch_size = 8, .workers = 2});
  CHECK(epochs_until_steady(threaded, 50) < 50);
}

TEST_CASE("waiting is measured") {
  struct Slow : Dataset {
    int64_t size() const override { return 4; }
    Sample load(int64_t index, RandomStream&) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return {zeros({2}), index};
    }
  };
  DataLoader alone(Slow(), {.batch_size = 2, .workers = 0});
  CHECK(alone.wait_seconds() == 0);
  CHECK(labels(alone).size() == 4);
  CHECK(alone.wait_seconds() >= 0.02);
  // With a worker, part of the time may pass before this thread begins to wait.
  DataLoader threaded(Slow(), {.batch_size = 2, .workers = 1});
  const auto start = std::chrono::steady_clock::now();
  CHECK(labels(threaded).size() == 4);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  CHECK(threaded.wait_seconds() > 0);
  CHECK(threaded.wait_seconds() <= all.count());
}

TEST_CASE("a loader may be thrown away in the middle of an epoch") {
  const Pictures pictures(16);
  for (int i = 0; i < 5; ++i) {
    DataLoader loader(pictures.dataset(), {.batch_size = 2, .workers = 3, .prefetch = 4});
    auto iterator = loader.begin();
    CHECK(iterator->image.defined());
  }
}

TEST_CASE("options out of range are refused") {
  CHECK_THROWS_AS(DataLoader(numbers(4), {.batch_size = 0}), Error);
  CHECK_THROWS_AS(DataLoader(numbers(4), {.workers = -1}), Error);
  CHECK_THROWS_AS(DataLoader(numbers(4), {.prefetch = 0}), Error);
  CHECK(bad_image_policy("skip") == BadImagePolicy::skip);
  CHECK(contains(error_of([] { bad_image_policy("skp"); }), "did you mean skip?"));
}

TEST_CASE("repeats of a sample are augmented differently, the same for any workers") {
  const Pictures pictures(5);
  const auto options = [](int workers) {
    return DataLoaderOptions{.batch_size = 5, .workers = workers, .repeated_augmentation = 2};
  };
  DataLoader alone(pictures.dataset(), options(0)), threads(pictures.dataset(), options(3));
  const auto first = epoch(alone);
  CHECK(epoch(threads) == first);
  const size_t image = 3 * 16 * 16;
  const auto sample = [&](size_t i) {
    return std::vector<float>(first[0].begin() + static_cast<ptrdiff_t>(i * image),
                              first[0].begin() + static_cast<ptrdiff_t>((i + 1) * image));
  };
  CHECK(sample(0) != sample(1));  // the first picture, twice
  CHECK(
      error_of(
          [&] { DataLoader(pictures.dataset(), {.join = true, .repeated_augmentation = 2}); }) ==
      "DataLoader: repeated_augmentation excludes other ways to divide samples; got it with join");
}
