#include "mixed_precision/scaling/loss_scale_presets.h"

namespace booster {

namespace {

constexpr double two_to_the_24 = 0x1p24, two_to_the_32 = 0x1p32;

constexpr LossScalePolicy torch = {.growth_guard = true};

constexpr LossScalePolicy apex = {
    .maximum = two_to_the_24, .f64_scale = true, .counts_when_static = true};

constexpr LossScalePolicy paddle_dynamic = {.f32_factors = true, .exact_hysteresis = true};

constexpr LossScalePolicy paddle_static = {
    .minimum = 1, .f32_factors = true, .growth_guard = true, .exact_hysteresis = true};

constexpr LossScalePolicy fleet = {.init = 32768,
                                   .backoff = 0.8,
                                   .growth_interval = 1000,
                                   .hysteresis = 2,
                                   .minimum = 1,
                                   .f32_factors = true,
                                   .growth_guard = true,
                                   .exact_hysteresis = true};

constexpr LossScalePolicy colossal = {.growth_interval = 1000,
                                      .hysteresis = 2,
                                      .refill = Refill::on_growth,
                                      .after_backoff = AfterBackoff::count,
                                      .minimum = 1,
                                      .maximum = two_to_the_32,
                                      .f32_factors = true};

constexpr LossScalePolicy megatron = {.init = two_to_the_32,
                                      .growth_interval = 1000,
                                      .hysteresis = 2,
                                      .refill = Refill::on_growth,
                                      .after_backoff = AfterBackoff::count,
                                      .minimum = 1,
                                      .f32_factors = true};

constexpr LossScalePolicy deepspeed = {.growth_interval = 1000,
                                       .hysteresis = 2,
                                       .refill = Refill::on_growth,
                                       .after_backoff = AfterBackoff::hold,
                                       .minimum = 1,
                                       .f64_scale = true,
                                       .free_first_step = true,
                                       .ends_at_minimum = true};

}  // namespace

const std::vector<LossScalePreset>& loss_scale_presets() {
  static const std::vector<LossScalePreset> presets = {
      {"torch", "torch.amp.GradScaler", torch},
      {"apex", "the LossScaler of Apex amp", apex},
      {"paddle_dynamic", "paddle.amp.GradScaler", paddle_dynamic},
      {"paddle_static", "paddle.static.amp.decorate", paddle_static},
      {"fleet", "amp_configs of Paddle's Fleet", fleet},
      {"colossal", "Colossal-AI's DynamicGradScaler", colossal},
      {"megatron", "Megatron's DynamicGradScaler", megatron, true},
      {"deepspeed", "DeepSpeed's DynamicLossScaler", deepspeed, true}};
  return presets;
}

std::vector<std::string> loss_scale_preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : loss_scale_presets()) names.push_back(preset.name);
  return names;
}

const LossScalePreset& find_loss_scale_preset(std::string_view name) {
  for (const auto& preset : loss_scale_presets())
    if (preset.name == name) return preset;
  fail("loss scaler: unknown preset; got {}{}", name, legal_names(name, loss_scale_preset_names()));
}

LossScalePolicy loss_scale_preset(std::string_view name) {
  return find_loss_scale_preset(name).policy;
}

}  // namespace booster
