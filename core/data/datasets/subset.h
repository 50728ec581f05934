// Some samples of a data set, and data sets cut into random parts.
#pragma once

#include "core/data/dataset.h"

#include <concepts>
#include <memory>
#include <vector>

namespace booster {

// The samples at these indices, in this order.
class Subset : public Dataset {
 public:
  // Error for an index outside of the data set.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  // By the whole and the indices.
  DatasetIdentity identity() const override;
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

// Parts of a data set, drawn without replacement; every sample is in one. `lengths` are numbers of
// samples that add up to all, or fractions that add up to 1: then each part gets its fraction
// rounded down, and what is left over goes to the first parts, one each, as in PyTorch. The draw
// depends on the seed alone. Errors: lengths that are neither, or below 0.
std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& lengths, uint64_t seed = 0);
template <std::derived_from<Dataset> D>
std::vector<Subset> random_split(D dataset, const std::vector<double>& lengths,
                                 uint64_t seed = 0) {
  return random_split(std::make_shared<D>(std::move(dataset)), lengths, seed);
}

}  // namespace booster
