// The rules of loss scalers as functions of plain values. Thread-safe.
#pragma once

#include "mixed_precision/scaling/loss_scaler.h"

#include <cstdint>
#include <map>
#include <string>

namespace booster {

using kernels::ScaleRefusal;

// Returns a scaler's first state. Throws if the policy is invalid, or if it `refuses` unusable
// scales and its first scale is unusable.
LossScaleState first_state(const LossScalePolicy& policy);

// Returns the state after one more step. A pure function; LossScaler runs the same kernel on the
// device.
LossScaleState next(const LossScalePolicy& policy, LossScaleState state, bool found_inf);

// Explains `state.refused` to users and suggests a remedy; "" if nothing was refused.
std::string diagnosis(const LossScaleState& state);

// Returns whether losses can be multiplied by `scale` and gradients by its inverse, both in f32.
bool is_usable_scale(double scale);

// Returns a counter of a strategy's saved values. Throws if it is missing or not an integer that a
// double holds exactly.
int64_t saved_counter(const std::map<std::string, double>& state, const std::string& key);

}  // namespace booster
