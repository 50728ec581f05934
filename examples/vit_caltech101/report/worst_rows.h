// Which images of a validation have the largest losses. One thread.
#pragma once

#include <booster/booster.h>

#include <cstdint>
#include <span>
#include <vector>

namespace example {

class WorstRows {
 public:
  // The next image of this rank, and its label.
  void see(std::span<const float> logits, int64_t label);

  // The worst of all ranks, largest loss first; one that is no number is larger than any. `loader`
  // gave this rank's images, in order, without those that it could not read. Collective.
  std::vector<booster::report::WorstImage> joined(const booster::Group& group,
                                                  const booster::DataLoader& loader) const;

 private:
  static constexpr size_t most = 16;
  int64_t rows_ = 0;
  std::vector<booster::report::WorstImage> worst_;  // by rows of this rank, not yet by index
};

}  // namespace example
