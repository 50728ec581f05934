// The records that one rank reads in an epoch of a stream, in order. For one thread at a time.
//
// A shard's records come in an order that depends only on the seed, the epoch and the shard. If it
// is shuffled, it is read in blocks, each shuffled in memory (or sorted by length, and cut into
// batches that are shuffled). So a position needs no records: a new reader reads the current block
// again. Open shards take turns, record by record.
#pragma once

#include "core/data/dataset.h"
#include "core/data/stream_position.h"

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace booster {

struct StreamRecord {
  int64_t number = 0;  // among all records of the stream; each has its own
  MakeSample make;
  int64_t length = 0;
};

class StreamShare {
 public:
  // A rank's share at the start of an epoch, or from a position on. `stream` must outlive it.
  StreamShare(const StreamDataset& stream, const DataLoaderOptions& options, uint64_t epoch);
  StreamShare(const StreamDataset& stream, const DataLoaderOptions& options, uint64_t epoch,
              StreamPosition from);
  ~StreamShare();

  // Reads records up to the next of this rank that make up a batch. Fewer: the share is over.
  std::vector<StreamRecord> batch();
  StreamPosition position() const;

 private:
  class Cursor;
  std::optional<StreamRecord> next();
  int64_t records_per_batch() const;

  const StreamDataset& stream_;
  const DataLoaderOptions options_;
  const uint64_t epoch_;
  StreamPosition at_;  // without its `open`
  std::deque<std::unique_ptr<Cursor>> open_;
};

}  // namespace booster
