// The precision strategies that come with the library: their options, and functions that make them.
//
//   Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = 1024})});
//
// The same strategies by name and config: booster/config/config.h. Each function throws for options
// that are out of range or exclude each other. docs/numerics.md compares the strategies. Plain
// data; thread-safe.
#pragma once

#include "mixed_precision/scaling/loss_scaler.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace booster {

// --- fp16: torch's automatic mixed precision. Parameters stay f32, listed ops run in f16, and a
// dynamic loss scale keeps gradients in range.

PrecisionMaker FP16TorchMixedPrecision(GradScalerOptions options = {});

// --- bf16: torch's autocast, or the model in bf16. It has f32's range, so the loss is not scaled.
// Without masters, `update` sets the rounding of new weights. "nearest" loses updates below half a
// unit in the last place. "stochastic" is exact on average. "kahan" keeps the lost part (2 bytes
// per parameter) for the next step.

struct BF16Options {
  std::string style = "autocast";
  bool master_weights = true;      // cast: f32 masters
  std::string update = "nearest";  // cast without masters: rounding of the new weights
  int64_t seed = 0;                // of stochastic rounding; the same on all ranks
  bool skip_non_finite = true;     // check the gradients before a step (one read of them)
  bool round_gradients = false;    // autocast: weight gradients to bf16, as torch does
};

PrecisionMaker BF16MixedPrecision(BF16Options options = {});

// --- fp8: linear layers and the projections of attention in 8-bit floats, with one scale per
// tensor; everything else as in bf16.

struct FP8Options {
  std::string scaling = "delayed";  // or "current"
  std::string format = "hybrid";    // e4m3 forward, e5m2 gradients; "e4m3": both
  // delayed scaling
  int64_t amax_history_len = 1024;
  std::string amax_compute_algo = "max";  // of the history; or "most_recent"
  int64_t margin = 0;                     // scales are divided by 2^margin
  bool reduce_amax = true;                // magnitudes are maxima over the ranks that hold a layer
  // current scaling
  bool power_of_two_scales = false;
  double amax_epsilon = 0;  // lower bound of magnitudes
  // which layers
  std::vector<std::string> exclude = {};  // names of layers, or of modules that hold layers
  bool first_and_last_in_bf16 = false;
  bool skip_non_finite = true;  // check gradients and quantized tensors before a step
};

PrecisionMaker FP8MixedPrecision(FP8Options options = {});

// --- fp16_naive: the whole model in f16 with f32 masters, after Colossal-AI.

struct FP16NaiveOptions {
  double initial_scale = 65536;
  double growth_factor = 2;            // > 1
  double backoff_factor = 0.5;         // in (0, 1)
  int64_t growth_interval = 1000;      // finite steps before the scale grows; 0: never
  double min_scale = 1;                // 0: no limit
  double max_scale = 0x1p32;           // 0: no limit
  int64_t hysteresis = 2;              // overflows since the last growth before a back-off
  bool verbose = false;                // reports skipped steps; waits for the device
  bool log_num_zeros_in_grad = false;  // reports how many gradients are 0; waits for the device
};

PrecisionMaker FP16NaiveMixedPrecision(FP16NaiveOptions options = {});

// --- fp64: the whole model in f64, for reference runs.

PrecisionMaker FP64Precision();

// --- fp16_apex: NVIDIA Apex's amp. The rules, legal overrides and defaults are as in
// apex.amp.initialize (e13873de). For loops without a Booster: mixed_precision/apex/apex_amp.h.

// A property in the forms that Apex accepts: a flag, a number, or either as text ("False", "128.0",
// "dynamic"). Empty if not given: the level decides.
class ApexValue {
 public:
  ApexValue() = default;
  ApexValue(bool flag) : text_(flag ? "True" : "False") {}
  template <class Number>
  requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) ApexValue(Number number)
      : text_(fmt::format("{}", number)) {}
  ApexValue(const char* text) : text_(text) {}
  ApexValue(std::string text) : text_(std::move(text)) {}

  bool given() const { return text_.has_value(); }
  // Returns the text as Python prints it: "None" if not given.
  std::string to_string() const { return text_.value_or("None"); }

 private:
  std::optional<std::string> text_;
};

struct FP16ApexOptions {
  bool enabled = true;  // false: no effect, as fp32
  std::string opt_level = "O1";
  // --- properties; default: the level's
  ApexValue cast_model_type = {};        // "fp16", "fp32", or false: the model is not cast
  ApexValue patch_torch_functions = {};  // flag: ops cast by the lists of O1
  ApexValue keep_batchnorm_fp32 = {};    // flag
  ApexValue master_weights = {};         // flag
  ApexValue loss_scale = {};             // "dynamic" or a number
  // --- the rest
  ApexValue cast_model_outputs = {};  // "fp16" or "fp32"
  int num_losses = 1;                 // loss scalers, chosen by loss_id
  int verbosity = 1;                  // 0: silent; 1: prints the properties; 2: also casts of O1
                                      // and, with the next loss, skipped steps
  double min_loss_scale = 0;          // 0: no limit
  double max_loss_scale = 0x1p24;
  // --- O1: ops, by our names or torch's, that run in f16, in f32, or in their arguments' widest
  // dtype
  std::vector<std::string> half_functions = {};
  std::vector<std::string> float_functions = {};
  std::vector<std::string> promote_functions = {};
};

PrecisionMaker FP16ApexMixedPrecision(FP16ApexOptions options = {});

// --- fp16_paddle: PaddlePaddle's AMP under its own option names. An option's default depends on
// the interface of Paddle: amp.auto_cast with GradScaler (the default here), static.amp.decorate
// (use_pure_fp16 = true) and Fleet (amp_configs).

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
  std::string level = "O1";                         // O0, OD, O1, O2
  std::string dtype = "float16";                    // or bfloat16
  std::vector<std::string> custom_white_list = {};  // Paddle's op names
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

PrecisionMaker FP16PaddleMixedPrecision(FP16PaddleOptions options = {});

// Affects forward passes of fp16_paddle with use_fp16_guard. Ops follow the lists of level O2 while
// a guard lives; other ops run in f32. Elsewhere it has no effect.
class FP16Guard {
 public:
  FP16Guard();

 private:
  PolicyScope scope_;
};

}  // namespace booster
