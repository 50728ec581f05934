// The loss scalers of other systems, by name, with their defaults. Plain data; thread-safe.
//
//   torch           torch.amp.GradScaler
//   apex            apex.amp's LossScaler
//   paddle_dynamic  paddle.amp.GradScaler
//   paddle_static   paddle.static.amp.decorate (its newer overload)
//   fleet           Paddle's Fleet amp_configs
//   colossal        Colossal-AI's DynamicGradScaler, with the limits of its optimizer
//   megatron        Megatron's DynamicGradScaler
//   deepspeed       DeepSpeed's DynamicLossScaler, as its "fp16" section sets it
#pragma once

#include "mixed_precision/scaling/loss_scaler.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct LossScalePreset {
  std::string name;
  std::string description;
  LossScalePolicy policy;
  bool counts_down = false;  // reports the remaining hysteresis instead of the bad steps
};

const std::vector<LossScalePreset>& loss_scale_presets();
std::vector<std::string> loss_scale_preset_names();
// Throws with the legal names and the nearest one.
const LossScalePreset& find_loss_scale_preset(std::string_view name);

}  // namespace booster
