// Measures each tensor's losses in 8-bit floats: the share of its elements that become 0 or are
// clipped. Also checks whether a scale from earlier magnitudes still fits. For one thread.
#pragma once

#include "booster/numerics/findings.h"
#include "core/autograd/observer.h"

#include <map>
#include <string>

namespace booster::numerics {

// Sums for one tensor over its observed uses. Omits uses with inf or nan, because their step is
// skipped.
struct QuantizedTensor {
  std::string format;
  int64_t uses = 0, numbers = 0;
  int64_t underflows = 0;  // not 0, but 0 in 8 bits
  int64_t overflows = 0;   // clipped
  // Values of the last use.
  double amax = 0, scale = 0;
  double scale_amax = 0;  // magnitude that set `scale`, `age` passes ago; age 0: amax itself
  int64_t age = 0;

  double share_underflow() const;
  double share_overflow() const;
};

class QuantizationHealth {
 public:
  // Adds a finding if many elements become 0, or if a magnitude is far from the one that set its
  // scale. In a first pass no magnitude has set the scale, so it only counts such uses.
  void see(const QuantizeEvent& event, int64_t step, Findings& findings);

  const std::map<std::string, QuantizedTensor>& tensors() const { return tensors_; }
  // Returns "" if no tensor was seen.
  std::string table() const;
  nlohmann::ordered_json to_json() const;

 private:
  std::map<std::string, QuantizedTensor> tensors_;
};

}  // namespace booster::numerics
