// torch's options and keys for a LossScaler, shared by GradScaler and the strategy fp16.
#pragma once

#include "mixed_precision/scaling/loss_scaler.h"

#include <map>
#include <string>

namespace booster {

// Return the options as a LossScaler's policy, a scaler with them, and its state under torch's keys
// (scale, growth_factor, backoff_factor, growth_interval, _growth_tracker). Throw for an option out
// of range, and for a missing key before anything changes.
LossScalePolicy torch_loss_scale_policy(const GradScalerOptions& options);
LossScaler torch_loss_scaler(const GradScalerOptions& options);
std::map<std::string, double> torch_state(const GradScalerOptions& options,
                                          const LossScaler& scaler);
void load_torch_state(const std::map<std::string, double>& state, GradScalerOptions& options,
                      LossScaler& scaler);

}  // namespace booster
