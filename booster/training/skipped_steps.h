// SkippedSteps: notices that a training stands still, since step after step is skipped.
//
// A skipped step now and then is nothing to tell of, and a loss scale that begins too high comes
// down by skipping. What is told, once for each row of skipped steps: `interval` of them or more
// where no overflow makes the strategy's loss scale smaller (it has none, or a constant one), or
// where the scale has come down to 1, since overflow is not the scale's fault then.
//
// Only the device knows whether a step was skipped. It counts those that were taken, and the host
// looks at the count every `interval` steps, when a backward pass begins. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "mixed_precision/interface/precision.h"

#include <string>

namespace booster {

class SkippedSteps {
 public:
  static constexpr int64_t interval = 10;

  // A step with this verdict is under way. Reads nothing from the device.
  void add(const Verdict& verdict);
  // True if `interval` steps have passed since the last look.
  bool is_due() const { return steps_ - looked_at_ >= interval; }
  // What there is to tell, or "". At the end of a run it tells too if no step at all was taken.
  // Waits for the device.
  std::string look(const Precision& precision, const Optimizer& optimizer, bool at_end);

 private:
  std::string describe(const Precision& precision, const Optimizer& optimizer) const;

  Tensor taken_;  // steps, one i64 on the device
  Tensor scale_;  // of the last step; undefined: 1
  int64_t steps_ = 0, looked_at_ = 0;  // so far, and at the last look
  int64_t taken_then_ = 0;             // of them, at the last look
  int64_t in_a_row_ = 0;               // skipped, as far as looks tell
  bool told_ = false;
};

}  // namespace booster
