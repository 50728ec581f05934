// SkippedSteps: detects that a training makes no progress because all steps are skipped.
//
// An occasional skipped step is normal, and skipped steps reduce a loss scale that begins too high.
// Two cases are reported, once per run of skipped steps. First: at least `interval` skipped steps
// with a strategy whose loss scale does not shrink on overflow (none, or a constant one). Second:
// the scale is already 1, so it does not cause the overflow.
//
// Only the device knows whether a step was skipped. It counts the taken steps. The host reads the
// count every `interval` steps, when a backward pass begins. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "mixed_precision/interface/precision.h"

#include <string>

namespace booster {

class SkippedSteps {
 public:
  static constexpr int64_t interval = 10;

  // Adds a step with this verdict, which may still be running. Reads nothing from the device.
  void add(const Verdict& verdict);
  // Returns true if `interval` steps have passed since the last call of look().
  bool is_due() const { return steps_ - looked_at_ >= interval; }
  // Returns the report, or "". At the end of a run it also reports if no step was taken. Waits for
  // the device.
  std::string look(const Precision& precision, const Optimizer& optimizer, bool at_end);

 private:
  std::string describe(const Precision& precision, const Optimizer& optimizer) const;

  Tensor taken_;  // number of steps, one i64 on the device
  Tensor scale_;  // of the last step; undefined: 1
  int64_t steps_ = 0, looked_at_ = 0;  // in total, and at the last look
  int64_t taken_then_ = 0;             // taken steps at the last look
  int64_t in_a_row_ = 0;               // skipped steps, as seen at the looks
  bool told_ = false;
};

}  // namespace booster
