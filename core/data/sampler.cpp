#include "core/data/loader.h"

#include "core/data/dataset.h"
#include "platform/error.h"

#include <numeric>
#include <utility>

namespace booster {
namespace {

constexpr uint64_t order_stream = ~uint64_t{0};  // no sample has this index

std::vector<int64_t> in_order(int64_t size) {
  std::vector<int64_t> indices(size);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<int64_t> permutation(int64_t size, uint64_t seed, uint64_t epoch) {
  auto indices = in_order(size);
  RandomStream random(seed, epoch, order_stream);
  for (int64_t i = size - 1; i > 0; --i) std::swap(indices[i], indices[random.below(i + 1)]);
  return indices;
}

void check_not_empty(const char* what, int64_t size) {
  check(size > 0, "{}: the dataset is empty; want at least 1 sample", what);
}

void check_rank(const char* what, int rank, int world_size) {
  check(world_size >= 1, "{}: world_size out of range; got {}, want 1 or more", what, world_size);
  check(rank >= 0 && rank < world_size, "{}: rank out of range; got {}, want 0 to {}", what, rank,
        world_size - 1);
}

}  // namespace

SequentialSampler::SequentialSampler(int64_t size) : size_(size) {
  check_not_empty("SequentialSampler", size);
}

std::vector<int64_t> SequentialSampler::indices(uint64_t) const { return in_order(size_); }

RandomSampler::RandomSampler(int64_t size, uint64_t seed) : size_(size), seed_(seed) {
  check_not_empty("RandomSampler", size);
}

std::vector<int64_t> RandomSampler::indices(uint64_t epoch) const {
  return permutation(size_, seed_, epoch);
}

DistributedSampler::DistributedSampler(int64_t size, DistributedSamplerOptions options)
    : size_(size), options_(options) {
  check_not_empty("DistributedSampler", size);
  check_rank("DistributedSampler", options.rank, options.world_size);
  check(options.even_shares || !options.drop_last,
        "DistributedSampler: drop_last makes shares even; got it without even_shares, want only "
        "one of the two");
  int64_t added = options.drop_last ? 0 : options.world_size - 1;
  if (!options.even_shares) added -= options.rank;
  per_rank_ = (size + added) / options.world_size;
  check(per_rank_ > 0 || !options.even_shares,
        "DistributedSampler: too few samples; got {} for {} ranks with drop_last",
        size, options.world_size);
}

std::vector<int64_t> DistributedSampler::indices(uint64_t epoch) const {
  const auto all = options_.shuffle ? permutation(size_, options_.seed, epoch) : in_order(size_);
  std::vector<int64_t> mine(per_rank_);
  for (int64_t i = 0; i < per_rank_; ++i)
    mine[i] = all[(options_.rank + i * options_.world_size) % size_];
  return mine;
}

RepeatedAugmentationSampler::RepeatedAugmentationSampler(int64_t size,
                                                         RepeatedAugmentationSamplerOptions options)
    : size_(size), options_(options) {
  check_not_empty("RepeatedAugmentationSampler", size);
  check_rank("RepeatedAugmentationSampler", options.rank, options.world_size);
  check(options.repeats >= 1, "RepeatedAugmentationSampler: repeats out of range; got {}, want 1 "
        "or more", options.repeats);
  constexpr int64_t rounding = 256;
  per_rank_ = size >= rounding ? size / rounding * rounding / options.world_size
                               : (size + options.world_size - 1) / options.world_size;
}

std::vector<int64_t> RepeatedAugmentationSampler::indices(uint64_t epoch) const {
  const auto order = options_.shuffle ? permutation(size_, options_.seed, epoch) : in_order(size_);
  std::vector<int64_t> mine(per_rank_);
  for (int64_t i = 0; i < per_rank_; ++i)
    mine[i] = order[common_place(i) / options_.repeats % size_];
  return mine;
}

int64_t RepeatedAugmentationSampler::repeat(int64_t place) const {
  return common_place(place) % options_.repeats;
}

}  // namespace booster
