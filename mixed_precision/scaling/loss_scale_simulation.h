// What a loss scaler would do with a sequence of finite and infinite gradients: the law itself
// (loss_scaler.h), run on the host without a model. Pure; thread-safe.
#pragma once

#include "mixed_precision/scaling/loss_scale_presets.h"

#include <string_view>
#include <vector>

namespace booster {

struct SimulatedStep {
  bool skipped = false;
  double scale = 0;       // after the step
  int64_t good = 0;       // finite steps counted towards growth
  int64_t bad = 0;        // bad steps counted towards back-off; where the preset `counts_down`,
                          // what is left of the hysteresis
  std::string diagnosis;  // why the scale was kept in this step, or ""
  bool ended = false;     // here the preset's original ends the training
};

// The steps that a pattern stands for, true where gradients are not finite. F is a finite step, I
// one with an infinity or nan, a number repeats the letter before it: "F3I2F" is FFFIIF. Error if
// the pattern is empty, has another letter, a count of 0 or more than a million steps.
std::vector<bool> steps_of(std::string_view pattern);

// The steps that were counted before the first one; the scale is the policy's `init`.
struct CountedSteps {
  int64_t good = 0;  // towards growth, as SimulatedStep::good
  int64_t bad = 0;   // towards back-off, also where the preset shows what is left
};

// One entry per step; the last one `ended` if the original would not get further. `policy` is the
// preset's, changed at will. Errors: first_state's, a count below 0.
std::vector<SimulatedStep> simulate(const LossScalePreset& preset, const LossScalePolicy& policy,
                                    const std::vector<bool>& steps, CountedSteps counted = {});

}  // namespace booster
