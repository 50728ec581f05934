// The options of each loss scaler preset, under the original system's names. `booster scaler`, the
// strategies' tables and the checks share this table. Thread-safe.
#pragma once

#include "booster/config/options/options.h"
#include "mixed_precision/scaling/loss_scale_presets.h"

namespace booster {

// Initial scales that can still grow and back off within f32.
inline const ValueRange loss_scale_range = between(0x1p-126, 0x1p126);

// Returns names, defaults and ranges. Throws for an unknown preset.
OptionTable scaler_options(std::string_view preset);

// Returns the preset's policy for checked option values. Throws for contradictory values.
LossScalePolicy scaler_policy(std::string_view preset, const OptionValues& values);

}  // namespace booster
