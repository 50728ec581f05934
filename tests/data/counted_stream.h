// A stream of known samples, and ranks of one process that read it, for tests.
#pragma once

#include "core/data/loader.h"
#include "core/data/stream_position.h"

#include <barrier>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace booster::test {

inline constexpr int64_t shard_step = 1000;

// Shards of these lengths. Sample i of shard s has the label s * shard_step + i and a drawn input.
class CountedStream : public StreamDataset {
 public:
  CountedStream(std::vector<int64_t> lengths, bool has_state)
      : lengths_(std::move(lengths)), has_state_(has_state) {}
  int64_t shards() const override { return static_cast<int64_t>(lengths_.size()); }
  std::unique_ptr<StreamReader> open(int64_t shard, uint64_t) const override {
    return std::make_unique<Reader>(shard, lengths_[static_cast<size_t>(shard)], has_state_);
  }
  std::multiset<int64_t> all() const {
    std::multiset<int64_t> labels;
    for (int64_t s = 0; s < shards(); ++s)
      for (int64_t i = 0; i < lengths_[static_cast<size_t>(s)]; ++i)
        labels.insert(s * shard_step + i);
    return labels;
  }

 private:
  struct Reader : StreamReader {
    Reader(int64_t shard, int64_t length, bool has_state)
        : shard(shard), end(length), has_state(has_state) {}
    MakeSample next() override {
      if (at == end) return nullptr;
      return [label = shard * shard_step + at++](RandomStream& random) {
        return Sample(full({1}, random.uniform(), {.dtype = DType::f64}), label);
      };
    }
    std::string state() const override { return has_state ? std::to_string(at) : std::string(); }
    void load_state(const std::string& state) override { at = std::stoll(state); }
    int64_t length() const override { return 1 + at * 7 % 11; }
    int64_t shard, end, at = 0;
    bool has_state;
  };
  std::vector<int64_t> lengths_;
  bool has_state_;
};

// Ranks of one process, a thread each.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : numbers_(static_cast<size_t>(size)), all_here_(size) {}
  std::vector<int64_t> gather(int rank, int64_t number) {
    numbers_[static_cast<size_t>(rank)] = number;
    all_here_.arrive_and_wait();
    std::vector<int64_t> all = numbers_;
    all_here_.arrive_and_wait();
    return all;
  }

 private:
  std::vector<int64_t> numbers_;
  std::barrier<> all_here_;
};

struct SeenBatch {
  std::vector<int64_t> labels;  // those that count
  std::vector<double> inputs;   // all
  double weight = 1;
  bool operator==(const SeenBatch&) const = default;
};

// What ranks saw, by rank, and where they are.
struct SeenByRanks {
  std::vector<std::vector<SeenBatch>> batches;
  std::vector<LoaderState> states;

  std::multiset<int64_t> labels() const {
    std::multiset<int64_t> all;
    for (const auto& rank : batches)
      for (const SeenBatch& batch : rank) all.insert(batch.labels.begin(), batch.labels.end());
    return all;
  }
  LoaderState joined() const {
    std::vector<std::string> places;
    for (const LoaderState& state : states) places.push_back(state.stream);
    return {states[0].epoch, states[0].batch, joined_positions(places)};
  }
};

// Reads an epoch on `ranks` ranks from a position on, or only `stop` batches of it.
inline SeenByRanks seen_by(const std::shared_ptr<const CountedStream>& stream,
                           DataLoaderOptions options, int ranks, const LoaderState& from = {},
                           int64_t stop = -1) {
  ThreadRanks together(ranks);
  SeenByRanks seen{std::vector<std::vector<SeenBatch>>(static_cast<size_t>(ranks)),
                   std::vector<LoaderState>(static_cast<size_t>(ranks))};
  options.world_size = ranks;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, options, rank]() mutable {
      options.rank = rank;
      options.gather = [&](int64_t number) { return together.gather(rank, number); };
      DataLoader loader(stream, options);
      loader.load_state(from);
      auto& batches = seen.batches[static_cast<size_t>(rank)];
      for (auto& [input, label] : loader) {
        auto labels = label.to_vector<int64_t>();
        labels.resize(static_cast<size_t>(loader.counted()));
        batches.push_back({labels, input.to_vector<double>(), loader.weight()});
        if (static_cast<int64_t>(batches.size()) == stop) break;
      }
      seen.states[static_cast<size_t>(rank)] = loader.state();
    });
  for (auto& thread : threads) thread.join();
  return seen;
}

}  // namespace booster::test
