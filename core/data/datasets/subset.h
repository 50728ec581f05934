// A subset of a data set's samples, and random splits of data sets.
#pragma once

#include "core/data/dataset.h"

#include <concepts>
#include <memory>
#include <vector>

namespace booster {

// The samples at these indices, in this order.
class Subset : public Dataset {
 public:
  // Throws for an index outside the data set.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the whole data set and the indices.
  DatasetIdentity identity() const override;
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

// Splits a data set at random without replacement; every sample is in exactly one part. `lengths`
// are either sample counts that add up to all, or fractions that add up to 1. With fractions each
// part gets its share rounded down; the first parts get one more each until none are left, as in
// PyTorch. The draw depends only on the seed. Throws for lengths that are neither, or below 0.
std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& lengths, uint64_t seed = 0);
template <std::derived_from<Dataset> D>
std::vector<Subset> random_split(D dataset, const std::vector<double>& lengths,
                                 uint64_t seed = 0) {
  return random_split(std::make_shared<D>(std::move(dataset)), lengths, seed);
}

}  // namespace booster
