// Simulates a loss scaler on a sequence of finite and infinite gradients: the policy of
// loss_scaler.h, run on the host without a model. Pure; thread-safe.
#pragma once

#include "mixed_precision/scaling/loss_scale_presets.h"

#include <string_view>
#include <vector>

namespace booster {

struct SimulatedStep {
  bool skipped = false;
  double scale = 0;       // after the step
  int64_t good = 0;       // finite steps counted towards growth
  int64_t bad = 0;        // bad steps counted towards back-off; if the preset `counts_down`, the
                          // remaining hysteresis
  std::string diagnosis;  // why this step kept the scale, or ""
  bool ended = false;     // the preset's original ends the training here
};

// Returns the steps of a pattern, true where gradients are not finite. F is a finite step, I a step
// with an infinity or nan, and a number repeats the letter before it: "F3I2F" is FFFIIF. Throws if
// the pattern is empty, has another letter, a count of 0 or more than a million steps.
std::vector<bool> steps_of(std::string_view pattern);

// Steps counted before the first one; the scale is the policy's `init`.
struct CountedSteps {
  int64_t good = 0;  // towards growth, as SimulatedStep::good
  int64_t bad = 0;   // towards back-off, even if the preset counts down
};

// Returns one entry per step; the last one `ended` if the original would stop there. `policy` is
// the preset's, freely changed. Throws as first_state, and for a count below 0.
std::vector<SimulatedStep> simulate(const LossScalePreset& preset, const LossScalePolicy& policy,
                                    const std::vector<bool>& steps, CountedSteps counted = {});

}  // namespace booster
