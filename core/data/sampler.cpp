#include "core/data/loader.h"

#include "core/data/dataset.h"
#include "platform/error.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace booster {
namespace {

constexpr uint64_t order_stream = ~uint64_t{0};  // no sample and no batch has these numbers
constexpr uint64_t bucket_stream = order_stream - 1;

std::vector<int64_t> in_order(int64_t size) {
  std::vector<int64_t> indices(size);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<int64_t> permutation(int64_t size, uint64_t seed, uint64_t epoch,
                                 uint64_t stream = order_stream) {
  auto indices = in_order(size);
  RandomStream random(seed, epoch, stream);
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

// See bucket_by_length(). Ranks share each batch of all, as with DistributedSampler.
class BucketSampler : public Sampler {
 public:
  BucketSampler(std::vector<int64_t> lengths, const BucketOptions& options)
      : lengths_(std::move(lengths)),
        options_(options),
        per_batch_(options.batch_size * options.world_size) {
    const auto count = static_cast<int64_t>(lengths_.size());
    size_ = (count + (options.drop_last ? 0 : options.world_size - 1)) / options.world_size;
  }
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t epoch) const override {
    const std::vector<int64_t> all = order_of_all(epoch);
    std::vector<int64_t> mine(size_);
    for (int64_t i = 0; i < size_; ++i)
      mine[i] = all[(options_.rank + i * options_.world_size) % all.size()];
    return mine;
  }

 private:
  std::vector<int64_t> order_of_all(uint64_t epoch) const {
    const auto count = static_cast<int64_t>(lengths_.size());
    std::vector<int64_t> all =
        options_.shuffle ? permutation(count, options_.seed, epoch) : in_order(count);
    const int64_t bucket = per_batch_ * options_.batches_per_bucket;
    for (int64_t first = 0; first < count; first += bucket)
      std::stable_sort(all.begin() + first, all.begin() + std::min(first + bucket, count),
                       [&](int64_t a, int64_t b) { return lengths_[a] < lengths_[b]; });
    if (!options_.shuffle) return all;
    std::vector<int64_t> shuffled;  // by batches; an incomplete one stays the last
    for (const int64_t batch : permutation(count / per_batch_, options_.seed, epoch, bucket_stream))
      shuffled.insert(shuffled.end(), all.begin() + batch * per_batch_,
                      all.begin() + (batch + 1) * per_batch_);
    shuffled.insert(shuffled.end(), all.begin() + static_cast<int64_t>(shuffled.size()), all.end());
    return shuffled;
  }

  std::vector<int64_t> lengths_;
  BucketOptions options_;
  int64_t per_batch_, size_;
};

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

std::shared_ptr<const Sampler> bucket_by_length(std::vector<int64_t> lengths,
                                                const BucketOptions& options) {
  check_not_empty("bucket_by_length", static_cast<int64_t>(lengths.size()));
  check_rank("bucket_by_length", options.rank, options.world_size);
  check(options.batch_size >= 1 && options.batches_per_bucket >= 1,
        "bucket_by_length: sizes out of range; got batch_size {} and batches_per_bucket {}, want 1 "
        "or more",
        options.batch_size, options.batches_per_bucket);
  auto sampler = std::make_shared<BucketSampler>(std::move(lengths), options);
  check(sampler->size() > 0,
        "bucket_by_length: too few samples for {} ranks with drop_last; want one for each",
        options.world_size);
  return sampler;
}

}  // namespace booster
