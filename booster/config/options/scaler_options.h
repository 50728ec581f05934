// The options of each loss scaler preset, under the names of the original system: one table for
// `booster scaler`, for strategies' rows and for checks. Thread-safe.
#pragma once

#include "booster/config/options/options.h"
#include "mixed_precision/scaling/loss_scale_presets.h"

namespace booster {

// Initial scales that can still grow and back off within f32.
inline const ValueRange loss_scale_range = between(0x1p-126, 0x1p126);

// Names, defaults and ranges. Error for an unknown preset.
OptionTable scaler_options(std::string_view preset);

// The preset's policy with checked values of its options. Error if they contradict each other.
LossScalePolicy scaler_policy(std::string_view preset, const OptionValues& values);

}  // namespace booster
