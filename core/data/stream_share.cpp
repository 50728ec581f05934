#include "core/data/stream_share.h"

#include "platform/error.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace booster {
namespace {

constexpr int64_t most_open = 8;  // shuffled shards that take turns
// Random streams with these numbers shuffle shards and blocks. Samples use smaller numbers.
constexpr uint64_t shards_stream = uint64_t{1} << 62, block_streams = shards_stream + 1;

int64_t open_at_once(const DataLoaderOptions& options, int64_t shards) {
  return options.shuffle && !options.by_length ? std::min(most_open, shards) : 1;
}

template <class T>
void shuffle(std::vector<T>& all, RandomStream& random) {
  for (auto i = static_cast<int64_t>(all.size()) - 1; i > 0; --i)
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(random.below(i + 1))]);
}

// Sorts records by length, and shuffles the chunks of equally many that they make. An incomplete
// chunk stays the last.
std::vector<StreamRecord> in_chunks(std::vector<StreamRecord> records, int64_t chunk,
                                    RandomStream& random) {
  std::ranges::stable_sort(records, {}, &StreamRecord::length);
  std::vector<int64_t> starts;
  const auto count = static_cast<int64_t>(records.size());
  for (int64_t start = 0; start + chunk <= count; start += chunk) starts.push_back(start);
  const auto rest = static_cast<int64_t>(starts.size()) * chunk;
  shuffle(starts, random);
  std::vector<StreamRecord> result;
  const auto take = [&](int64_t begin, int64_t end) {
    std::move(records.begin() + begin, records.begin() + end, std::back_inserter(result));
  };
  for (const int64_t start : starts) take(start, start + chunk);
  take(rest, count);
  return result;
}

StreamPosition epoch_start(const StreamDataset& stream, const DataLoaderOptions& options,
                           uint64_t epoch) {
  const int64_t shards = stream.shards();
  StreamPosition at{.ranks = options.world_size, .shards = shards};
  at.is_whole = shards % options.world_size != 0;
  std::vector<int64_t> order(static_cast<size_t>(shards));
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(options.seed, epoch, shards_stream);
  if (options.shuffle) shuffle(order, random);
  std::vector<ShardPosition> queue;
  for (int64_t i = at.is_whole ? 0 : options.rank; i < shards;
       i += at.is_whole ? 1 : options.world_size)
    queue.push_back({.shard = order[static_cast<size_t>(i)]});
  at.queue = std::make_shared<const std::vector<ShardPosition>>(std::move(queue));
  return at;
}

}  // namespace

// Reads one shard.
class StreamShare::Cursor {
 public:
  Cursor(const StreamShare& share, ShardPosition from)
      : share_(share),
        reader_(share.stream_.open(from.shard, share.epoch_)),
        at_(std::move(from)),
        read_(at_.read) {
    check(reader_ != nullptr, "StreamDataset: open() gave no reader; got null for shard {}",
          at_.shard);
    if (!at_.state.empty())
      reader_->load_state(at_.state);
    else
      for (int64_t i = 0; i < at_.read; ++i)
        if (!reader_->next())
          fail_data(
              "DataLoader: shard {} of the stream has become shorter; got {} records, want {}",
              at_.shard, i, at_.read);
    if (at_.block == 0) return;
    const int64_t given = at_.given;
    read_block(at_.block, at_.chunk);
    at_.given = std::min(given, static_cast<int64_t>(block_.size()));
  }

  std::optional<StreamRecord> next() {
    if (at_.given < static_cast<int64_t>(block_.size()))
      return std::move(block_[static_cast<size_t>(at_.given++)]);
    if (!share_.options_.shuffle) return read();
    const int64_t open = open_at_once(share_.options_, share_.at_.shards);
    read_block(std::max<int64_t>(share_.options_.shuffle_buffer / open, 1),
               share_.options_.by_length ? share_.records_per_batch() : 0);
    if (block_.empty()) return std::nullopt;
    return next();
  }

  ShardPosition position() const {
    if (at_.given < static_cast<int64_t>(block_.size())) return at_;
    return {.shard = at_.shard, .read = read_, .state = reader_->state()};
  }

 private:
  std::optional<StreamRecord> read() {
    MakeSample make = reader_->next();
    if (!make) return std::nullopt;
    return StreamRecord{read_++ * share_.at_.shards + at_.shard, std::move(make),
                        reader_->length()};
  }

  void read_block(int64_t records, int64_t chunk) {
    at_ = {.shard = at_.shard,
           .read = read_,
           .state = reader_->state(),
           .block = records,
           .chunk = chunk};
    block_.clear();
    while (static_cast<int64_t>(block_.size()) < records) {
      auto record = read();
      if (!record) break;
      block_.push_back(std::move(*record));
    }
    const auto number = static_cast<uint64_t>(at_.read * share_.at_.shards + at_.shard);
    RandomStream random(share_.options_.seed, share_.epoch_, block_streams + number);
    shuffle(block_, random);
    if (chunk > 0) block_ = in_chunks(std::move(block_), chunk, random);
  }

  const StreamShare& share_;
  std::unique_ptr<StreamReader> reader_;
  ShardPosition at_;  // of the current block; without one, only the shard
  int64_t read_;      // records that the reader has given
  std::vector<StreamRecord> block_;
};

StreamShare::StreamShare(const StreamDataset& stream, const DataLoaderOptions& options,
                         uint64_t epoch)
    : StreamShare(stream, options, epoch, epoch_start(stream, options, epoch)) {}

StreamShare::StreamShare(const StreamDataset& stream, const DataLoaderOptions& options,
                         uint64_t epoch, StreamPosition from)
    : stream_(stream), options_(options), epoch_(epoch), at_(std::move(from)) {}

StreamShare::~StreamShare() = default;

std::optional<StreamRecord> StreamShare::next() {
  const auto most = static_cast<size_t>(open_at_once(options_, at_.shards));
  for (;;) {
    while (open_.size() < most && at_.opened < at_.queue->size())
      open_.push_back(std::make_unique<Cursor>(*this, (*at_.queue)[at_.opened++]));
    if (open_.empty()) return std::nullopt;
    auto cursor = std::move(open_.front());
    open_.pop_front();
    auto record = cursor->next();
    if (!record) continue;
    open_.push_back(std::move(cursor));
    return record;
  }
}

int64_t StreamShare::records_per_batch() const {
  return options_.batch_size * (at_.is_whole ? options_.world_size : 1);
}

std::vector<StreamRecord> StreamShare::batch() {
  std::vector<StreamRecord> records;
  for (int64_t i = 0; i < records_per_batch(); ++i) {
    auto record = next();
    if (!record) break;
    if (!at_.is_whole || i % options_.world_size == options_.rank)
      records.push_back(std::move(*record));
  }
  return records;
}

StreamPosition StreamShare::position() const {
  StreamPosition at = at_;
  for (const auto& cursor : open_) at.open.push_back(cursor->position());
  return at;
}

}  // namespace booster
