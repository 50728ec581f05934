// Finds the images of a validation with the largest losses. For one thread.
#pragma once

#include <booster/booster.h>

#include <cstdint>
#include <span>
#include <vector>

namespace example {

class WorstRows {
 public:
  // Adds this rank's next image and its label.
  void see(std::span<const float> logits, int64_t label);

  // Returns the worst images of all ranks, largest loss first; nan counts as largest. `loader`
  // loaded this rank's images, in order, without unreadable ones. Collective.
  std::vector<booster::report::WorstImage> joined(const booster::Group& group,
                                                  const booster::DataLoader& loader) const;

 private:
  static constexpr size_t most = 16;
  int64_t rows_ = 0;
  std::vector<booster::report::WorstImage> worst_;  // indexed by this rank's rows until joined
};

}  // namespace example
