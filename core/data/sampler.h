// The order in which an epoch visits a dataset. A sampler is a pure function of the epoch, so its
// position is just a number that the loader keeps, and the same seed gives the same order
// everywhere. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace booster {

class Sampler {
 public:
  virtual ~Sampler() = default;
  // The number of indices in an epoch.
  virtual int64_t size() const = 0;
  virtual std::vector<int64_t> indices(uint64_t epoch) const = 0;
};

class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size);
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_;
};

// A permutation, different in each epoch.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t size, uint64_t seed = 42);
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_;
  uint64_t seed_;
};

struct DistributedSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  bool drop_last = false;
  bool even_shares = true;  // all ranks get equally many; see below
};

// Every world_size-th index of one common order, starting at the rank's number, as in PyTorch. All
// ranks get equally many: indices from the front pad the end, or with drop_last the tail is
// dropped. Without `even_shares` each index goes to exactly one rank, and the last ranks may have
// one fewer than the first, or none. The k-th batches of all ranks together are the k-th batch of
// one process with the joined batch size.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t size, DistributedSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_, per_rank_;
  DistributedSamplerOptions options_;
};

}  // namespace booster
