// The values that the options of fp16_paddle resolve to. An option's default depends on the
// interface of Paddle.
//
//   interface                    selected by            init   grow after  back off after  by
//   amp.auto_cast + GradScaler   the default            65536  2000        1               0.5
//   static.amp.decorate, older   use_pure_fp16 = true   32768  1000        2               0.8
//   Fleet's amp_configs          amp_configs            32768  1000        2               0.8
//
// The two static interfaces never lower the scale below 1, and skip a growth to infinity. Plain
// values; thread-safe.
#pragma once

#include "mixed_precision/built_in.h"
#include "mixed_precision/ops/op_policies.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <optional>
#include <string>
#include <vector>

namespace booster {

struct PaddleSettings {
  PaddleLevel level = PaddleLevel::O1;
  DType lower = DType::f16;
  PaddleLists lists = {};
  std::vector<std::string> black_varnames = {};
  bool guard = false;  // ops outside an FP16Guard stay f32
  bool masters = true;
  bool master_grad = false;
  std::vector<std::string> excluded_layers = {};
  std::optional<DType> save_dtype = {};
  bool scales = true;  // false: neither scales nor checks
  LossScalePolicy scaler = {};
  std::vector<std::string> messages = {};  // for the user: behaviour that may surprise

  // Returns true for O2 without a guard: the model itself is converted.
  bool converts_model() const { return level == PaddleLevel::O2 && !guard; }
};

// Throws for an unknown level or dtype, a number out of range, or incompatible options.
PaddleSettings resolved(const FP16PaddleOptions& options);

// Returns all settings in one line: "level O1, dtype float16, init_loss_scaling 65536, ...".
std::string describe(const PaddleSettings& settings);

}  // namespace booster
