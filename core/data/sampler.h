// In which order an epoch visits a dataset. A sampler is a pure function of the epoch, so its
// position is a number that the loader keeps, and the same seed gives the same order anywhere.
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace booster {

class Sampler {
 public:
  virtual ~Sampler() = default;
  // How many indices an epoch has.
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

// A permutation, another one each epoch.
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
};

// Every world_size-th index of one common order, beginning at the rank's, as PyTorch. All ranks get
// equally many: indices from the front fill up the end, or with drop_last the tail is left out. The
// k-th batches of all ranks together are the k-th batch of one process with the joined batch size.
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
