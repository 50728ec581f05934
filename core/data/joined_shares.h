// The batches of ranks whose shares of a data set are uneven, in training. Each sample counts once.
// All ranks have equally many batches, since they communicate in every step. Plain arithmetic on
// the shares of DistributedSampler; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace booster {

struct JoinedShares {
  int64_t samples = 0;  // of all ranks
  int64_t world_size = 1, batch_size = 1;
  bool drop_last = false;  // drops batches that are not full on every rank

  // Batches in an epoch, on every rank.
  int64_t batches() const {
    if (drop_last) return samples / world_size / batch_size;
    return (share(0) + batch_size - 1) / batch_size;
  }
  // Returns the number of a rank's samples that count in a batch; 0: the rank has none left.
  int64_t count(int64_t rank, int64_t batch) const {
    return std::clamp<int64_t>(share(rank) - batch * batch_size, 0, batch_size);
  }
  // Returns the count relative to its mean over the ranks. With these weights, the mean of the
  // ranks' batch means is the mean over all samples.
  double weight(int64_t rank, int64_t batch) const {
    int64_t all = 0;
    for (int64_t other = 0; other < world_size; ++other) all += count(other, batch);
    return static_cast<double>(count(rank, batch) * world_size) / static_cast<double>(all);
  }

 private:
  int64_t share(int64_t rank) const { return (samples - rank + world_size - 1) / world_size; }
};

}  // namespace booster
