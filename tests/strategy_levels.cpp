#include "tests/strategy_levels.h"

namespace booster::testing {

namespace {

PrecisionMaker apex(const char* level) {
  return FP16ApexMixedPrecision({.opt_level = level, .verbosity = 0, .max_loss_scale = 256});
}

PrecisionMaker paddle(const char* level, bool master_grad = false) {
  return FP16PaddleMixedPrecision({.level = level,
                                   .master_grad = master_grad,
                                   .init_loss_scaling = 256,
                                   .incr_every_n_steps = 4,
                                   .decr_every_n_nan_or_inf = 1});
}

PrecisionMaker torch() {
  return FP16TorchMixedPrecision({.init_scale = 256, .growth_interval = 4});
}

PrecisionMaker naive() {
  return FP16NaiveMixedPrecision({.initial_scale = 256, .growth_interval = 4, .hysteresis = 1});
}

PrecisionMaker kahan() {
  return BF16MixedPrecision({.style = "cast", .master_weights = false, .update = "kahan"});
}

}  // namespace

const std::vector<StrategyLevel>& strategy_levels() {
  using enum Digits;
  static const std::vector<StrategyLevel> rows = {
      {"fp32", FP32Precision(), f32, f32, false},
      {"fp16", torch(), f32, f16},
      {"fp16_apex O0", apex("O0"), f32, f32, false},
      {"fp16_apex O1", apex("O1"), f32, f16},
      {"fp16_apex O2", apex("O2"), f16, f16},
      {"fp16_apex O3", apex("O3"), f16, f16, false},
      {"fp16_naive", naive(), f16, f16},
      {"fp16_paddle O1", paddle("O1"), f32, f16},
      {"fp16_paddle O2", paddle("O2"), f16, f16},
      {"fp16_paddle O2 master_grad", paddle("O2", true), f32, f16},
      {"fp16_paddle OD", paddle("OD"), f32, f16},
      {"bf16", BF16MixedPrecision(), f32, bf16},
      {"bf16 cast", BF16MixedPrecision({.style = "cast"}), bf16, bf16},
      {"bf16 kahan", kahan(), bf16, bf16},
      {"fp8", FP8MixedPrecision(), f32, fp8},
      {"fp8 current", FP8MixedPrecision({.scaling = "current"}), f32, fp8},
      {"fp64", FP64Precision(), f64, f64, false}};
  return rows;
}

}  // namespace booster::testing
