// The order in which an epoch visits a dataset. A sampler is a pure function of the epoch: its
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
  // How often the sample at this place of indices() has occurred earlier in the epoch, on any rank.
  // Each occurrence is augmented with other random numbers. 0 for samplers that do not repeat
  // samples on purpose.
  virtual int64_t repeat(int64_t /*place*/) const { return 0; }
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

// Every world_size-th index of one common order, from the rank's number on, as in PyTorch. All
// ranks get equally many: indices from the front pad the end, or drop_last drops the tail. Without
// `even_shares` each index goes to exactly one rank, and the last ranks may have one fewer than the
// first, or none. The ranks' k-th batches together are the k-th batch of one process with the
// combined batch size.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t size, DistributedSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_, per_rank_;
  DistributedSamplerOptions options_;
};

struct RepeatedAugmentationSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  int64_t repeats = 3;
};

// Repeated augmentation (Hoffer et al., "Augment your batch", 2020) as in timm and torchvision. In
// the common order each sample occurs `repeats` times in a row. Ranks take every world_size-th
// entry, so the ranks' batches together hold several augmentations of one image. An epoch does not
// get longer: all ranks together take as many entries as there are samples, and so see only a part
// of the samples. That count is rounded down to a multiple of 256 if it is at least 256.
class RepeatedAugmentationSampler : public Sampler {
 public:
  RepeatedAugmentationSampler(int64_t size, RepeatedAugmentationSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;
  int64_t repeat(int64_t place) const override;

 private:
  // Converts a rank's place to a place in the common order.
  int64_t common_place(int64_t place) const { return options_.rank + place * options_.world_size; }
  int64_t size_, per_rank_;
  RepeatedAugmentationSamplerOptions options_;
};

}  // namespace booster
