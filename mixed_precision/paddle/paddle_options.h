// The options of fp16_paddle under Paddle's own names, and the values to which they resolve. The
// same name has different defaults in each of Paddle's interfaces.
//
//   interface                    selected by            init   grow after  back off after  by
//   amp.auto_cast + GradScaler   the default            65536  2000        1               0.5
//   static.amp.decorate, older   use_pure_fp16 = true   32768  1000        2               0.8
//   Fleet's amp_configs          amp_configs            32768  1000        2               0.8
//
// The two static interfaces never lower the scale below 1, and skip a growth to infinity. Plain
// values; thread-safe.
#pragma once

#include "mixed_precision/ops/op_policies.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <optional>
#include <string>
#include <vector>

namespace booster {

// amp_configs of Paddle's DistributedStrategy, with its defaults.
struct FleetAmpConfigs {
  double init_loss_scaling = 32768;
  int64_t incr_every_n_steps = 1000;
  int64_t decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2;
  double decr_ratio = 0.8;
  bool use_dynamic_loss_scaling = true;
  std::vector<std::string> custom_white_list = {};
  std::vector<std::string> custom_black_list = {};
  std::vector<std::string> custom_black_varnames = {};
  bool use_pure_fp16 = false;
  bool use_fp16_guard = true;
  bool use_optimizer_fp16 = false;  // used only by Paddle's automatic parallelism
  bool use_pure_bf16 = false;
};

// Absent options take the interface's default.
struct FP16PaddleOptions {
  std::string level = "O1";       // O0, OD, O1, O2
  std::string dtype = "float16";  // or bfloat16
  std::vector<std::string> custom_white_list = {};      // Paddle's op names
  std::vector<std::string> custom_black_list = {};
  std::vector<std::string> custom_black_varnames = {};  // parameters, buffers, layers
  std::optional<bool> use_promote = {};                 // true; false with use_pure_fp16
  std::optional<bool> master_weight = {};               // O2: true; false with use_pure_fp16
  bool master_grad = false;
  std::vector<std::string> excluded_layers = {};  // names, including everything below, or kinds
  std::string save_dtype = "";                    // "": as in training
  bool use_pure_fp16 = false;
  std::optional<bool> use_fp16_guard = {};  // O2: as use_pure_fp16
  std::optional<double> init_loss_scaling = {};
  std::optional<double> incr_ratio = {};
  std::optional<double> decr_ratio = {};
  std::optional<int64_t> incr_every_n_steps = {};
  std::optional<int64_t> decr_every_n_nan_or_inf = {};
  std::optional<bool> use_dynamic_loss_scaling = {};
  // Sets level, dtype and all options for which it has keys; only other options may be given with
  // it.
  std::optional<FleetAmpConfigs> amp_configs = {};
};

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

  // True for O2 without a guard: the model itself is converted.
  bool converts_model() const { return level == PaddleLevel::O2 && !guard; }
};

// Throws for an unknown level or dtype, a number out of range, or incompatible options.
PaddleSettings resolved(const FP16PaddleOptions& options);

// All settings in one line: "level O1, dtype float16, init_loss_scaling 65536, ...".
std::string describe(const PaddleSettings& settings);

}  // namespace booster
