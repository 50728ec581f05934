// The course of an epoch: which samples each batch has, one batch after the other. The loader's
// engine loads them. For one thread at a time.
#pragma once

#include "core/data/joined_shares.h"
#include "core/data/loader.h"
#include "core/data/stream_position.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace booster {

// One batch of the course.
struct BatchPlan {
  std::vector<int64_t> numbers;   // of the samples: indices, or numbers in the stream
  std::vector<uint64_t> randoms;  // the numbers of their random streams in the epoch
  std::vector<MakeSample> makes;  // of a stream; none: the data set loads the indices
  int64_t counted = 0;            // the samples at the front that count; the others are repeats
  std::shared_ptr<const StreamPosition> after;  // of a stream: the place after the batch
  std::exception_ptr error;                     // instead of a batch: the stream cannot be read

  int64_t size() const { return static_cast<int64_t>(numbers.size()); }
};

class Course {
 public:
  virtual ~Course() = default;
  // Returns the next batch; nothing at the end.
  virtual std::optional<BatchPlan> next() = 0;
};

JoinedShares joined_shares(const Dataset& dataset, const DataLoaderOptions& options);
// Returns the number of batches in an epoch of a data set with a sampler.
int64_t batch_count(const Dataset& dataset, const DataLoaderOptions& options);

// The batches of a data set in its sampler's order, from a position on.
std::unique_ptr<Course> index_course(const Dataset& dataset, const DataLoaderOptions& options,
                                     const LoaderState& from);

// The batches of a rank's share of a stream. Without even_shares, and on one rank, they end with
// the share. Otherwise ranks end together, and a rank whose share is over has batches without end:
// its share repeated or, with `join`, single samples that do not count. With drop_last it ends.
// `stream` must outlive the course.
std::unique_ptr<Course> stream_course(const StreamDataset& stream, const DataLoaderOptions& options,
                                      const LoaderState& from);
// Returns whether ranks agree on each batch, so that they end together.
inline bool ends_together(const DataLoaderOptions& options) {
  return options.world_size > 1 && options.even_shares;
}

}  // namespace booster
