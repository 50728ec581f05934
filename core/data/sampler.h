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
  // How often the sample at this place of indices() has been in the epoch before, on any rank: each
  // time it is augmented with other random numbers. 0 where samples are not repeated on purpose.
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

struct RepeatedAugmentationSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  int64_t repeats = 3;
};

// Repeated augmentation (Hoffer et al., "Augment your batch", 2020) as timm and torchvision do it:
// each sample stands `repeats` times in a row in the order of which ranks take every world_size-th,
// so a batch of all ranks holds several augmentations of one image. An epoch is not longer for it:
// all ranks together stop after as many as there are samples, rounded down to a multiple of 256 if
// there are so many, and so see a part of the samples.
class RepeatedAugmentationSampler : public Sampler {
 public:
  RepeatedAugmentationSampler(int64_t size, RepeatedAugmentationSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;
  int64_t repeat(int64_t place) const override;

 private:
  // Of a rank's place, in the order of all.
  int64_t common_place(int64_t place) const { return options_.rank + place * options_.world_size; }
  int64_t size_, per_rank_;
  RepeatedAugmentationSamplerOptions options_;
};

}  // namespace booster
