// The built-in plugins and precision strategies: one row each.
#include "booster/config/paddle_entry.h"
#include "booster/config/registry.h"
#include "booster/config/scaler_options.h"
#include "booster/profile/machine.h"
#include "mixed_precision/bf16.h"
#include "mixed_precision/fp16_apex.h"
#include "mixed_precision/fp16_naive.h"
#include "mixed_precision/fp16_torch.h"
#include "mixed_precision/fp8.h"
#include "plugins/torch_ddp.h"

namespace booster {

namespace {

std::unique_ptr<Plugin> make_torch_ddp(const OptionValues& values) {
  return std::make_unique<TorchDDPPlugin>(
      TorchDDPOptions{.bucket_cap_mb = values.get<double>("bucket_cap_mb"),
                      .find_unused_parameters = values.get<bool>("find_unused_parameters"),
                      .broadcast_buffers = values.get<bool>("broadcast_buffers"),
                      .gradient_as_bucket_view = values.get<bool>("gradient_as_bucket_view")});
}

std::unique_ptr<Precision> make_fp16(const OptionValues& values) {
  return std::make_unique<FP16TorchMixedPrecision>(
      GradScalerOptions{.init_scale = values.get<double>("init_scale"),
                        .growth_factor = values.get<double>("growth_factor"),
                        .backoff_factor = values.get<double>("backoff_factor"),
                        .growth_interval = values.get<int64_t>("growth_interval")});
}

// A property that the config may leave to the level.
ApexValue apex_value(const OptionValues& values, const char* name) {
  const auto& value = values.values().at(name);
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

std::unique_ptr<Precision> make_fp16_apex(const OptionValues& values) {
  using Names = std::vector<std::string>;
  return std::make_unique<FP16ApexMixedPrecision>(
      FP16ApexOptions{.enabled = values.get<bool>("enabled"),
                      .opt_level = values.get<std::string>("opt_level"),
                      .cast_model_type = apex_value(values, "cast_model_type"),
                      .patch_torch_functions = apex_value(values, "patch_torch_functions"),
                      .keep_batchnorm_fp32 = apex_value(values, "keep_batchnorm_fp32"),
                      .master_weights = apex_value(values, "master_weights"),
                      .loss_scale = apex_value(values, "loss_scale"),
                      .cast_model_outputs = apex_value(values, "cast_model_outputs"),
                      .num_losses = values.get<int>("num_losses"),
                      .verbosity = values.get<int>("verbosity"),
                      .min_loss_scale = values.get<double>("min_loss_scale"),
                      .max_loss_scale = values.get<double>("max_loss_scale"),
                      .half_functions = values.get<Names>("half_functions"),
                      .float_functions = values.get<Names>("float_functions"),
                      .promote_functions = values.get<Names>("promote_functions")});
}

OptionTable fp16_apex_options() {
  const char* flag = "true, false, \"True\" or \"False\"";
  Option level = text_option(
      "opt_level", "O1", "O0: fp32; O1: ops cast by lists; O2: f16 model, f32 masters; O3: f16");
  level.legal = "O0, O1, O2 or O3";  // the strategy reports other errors better
  return {
      boolean_option("enabled", true, "false: as fp32"),
      level,
      scalar_option("cast_model_type", "fp16, fp32 or false",
                    "dtype of the model; null: fp32 in O0, none in O1, fp16 in O2 and O3"),
      scalar_option("patch_torch_functions", flag, "cast around ops; null: true in O1 alone"),
      scalar_option("keep_batchnorm_fp32", flag,
                    "batch normalisation stays f32; null: true in O2, false in O3"),
      scalar_option("master_weights", flag, "f32 masters; null: true in O2, false in O0 and O3"),
      scalar_option("loss_scale", "\"dynamic\" or a number > 0",
                    "null: dynamic in O1 and O2, 1 in O0 and O3"),
      scalar_option("cast_model_outputs", "fp16 or fp32",
                    "dtype of outputs; null: fp32, but in O1 as they come"),
      integer_option("num_losses", 1, between(1, 1000),
                     "loss scalers, chosen by the loss_id of backward"),
      integer_option("verbosity", 1, between(0, 2),
                     "0: silent, 1: tells the properties, 2: and casts of O1 and, with the next "
                     "loss, skipped steps"),
      number_option("min_loss_scale", 0, at_least(0), "smallest dynamic scale; 0: no limit"),
      number_option("max_loss_scale", 0x1p24, above(0), "largest dynamic scale"),
      texts_option("half_functions", {}, "O1: more ops that run in f16"),
      texts_option("float_functions", {}, "O1: more ops that run in f32"),
      texts_option("promote_functions", {}, "O1: more ops that take the widest dtype")};
}

std::function<bool(const OptionValues&)> has_choice(const char* option, const char* choice) {
  return [=](const OptionValues& values) { return values.get<std::string>(option) == choice; };
}

IdleOptions never_grows(const char* factor) {
  return {{factor},
          [](const OptionValues& values) { return values.get<int64_t>("growth_interval") == 0; },
          "with growth_interval = 0"};
}

// True if it resolves to a fixed scale.
bool has_fixed_apex_scale(const OptionValues& values) {
  const std::string scale = apex_value(values, "loss_scale").to_string();
  const std::string level = values.get<std::string>("opt_level");
  return apex_value(values, "loss_scale").given() ? scale != "dynamic"
                                                  : level == "O0" || level == "O3";
}

IdleTable idle_in_fp16_apex() {
  return {{{"opt_level", "cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32",
            "master_weights", "loss_scale", "cast_model_outputs", "num_losses", "verbosity",
            "min_loss_scale", "max_loss_scale", "half_functions", "float_functions",
            "promote_functions"},
           [](const OptionValues& values) { return !values.get<bool>("enabled"); },
           "with enabled = false"},
          {{"half_functions", "float_functions", "promote_functions"},
           [](const OptionValues& values) { return values.get<std::string>("opt_level") != "O1"; },
           "at a level other than O1"},
          {{"min_loss_scale", "max_loss_scale"}, has_fixed_apex_scale, "with a fixed loss_scale"}};
}

std::unique_ptr<Precision> make_fp16_naive(const OptionValues& values) {
  return std::make_unique<FP16NaiveMixedPrecision>(
      FP16NaiveOptions{.initial_scale = values.get<double>("initial_scale"),
                       .growth_factor = values.get<double>("growth_factor"),
                       .backoff_factor = values.get<double>("backoff_factor"),
                       .growth_interval = values.get<int64_t>("growth_interval"),
                       .min_scale = values.get<double>("min_scale"),
                       .max_scale = values.get<double>("max_scale"),
                       .hysteresis = values.get<int64_t>("hysteresis"),
                       .verbose = values.get<bool>("verbose"),
                       .log_num_zeros_in_grad = values.get<bool>("log_num_zeros_in_grad")});
}

OptionTable fp16_naive_options() {
  return {number_option("initial_scale", 65536, loss_scale_range, "first loss scale"),
          number_option("growth_factor", 2, above(1), "factor after growth_interval finite steps"),
          number_option("backoff_factor", 0.5, {0, 1, true, true}, "factor when it backs off"),
          integer_option("growth_interval", 1000, at_least(0),
                         "finite steps before the scale grows; 0: never"),
          number_option("min_scale", 1, at_least(0), "smallest scale; 0: no limit"),
          number_option("max_scale", 0x1p32, at_least(0), "largest scale; 0: no limit"),
          integer_option("hysteresis", 2, at_least(0),
                         "overflows since the last growth before it backs off"),
          boolean_option("verbose", false, "tells of skipped steps (waits for the device)"),
          boolean_option("log_num_zeros_in_grad", false,
                         "tells how many gradients are 0 (waits for the device)")};
}

std::unique_ptr<Precision> make_bf16(const OptionValues& values) {
  return std::make_unique<BF16MixedPrecision>(
      BF16Options{.style = values.get<std::string>("style"),
                  .master_weights = values.get<bool>("master_weights"),
                  .update = values.get<std::string>("update"),
                  .seed = values.get<int64_t>("seed"),
                  .skip_non_finite = values.get<bool>("skip_non_finite")});
}

OptionTable bf16_options() {
  return {
      choice_option("style", "autocast", {"autocast", "cast"},
                    "autocast: f32 parameters, listed ops in bf16; cast: a bf16 model"),
      boolean_option("master_weights", true, "cast: steps update f32 masters"),
      choice_option("update", "nearest", {"nearest", "stochastic", "kahan"},
                    "cast without masters: how a new weight is rounded; kahan keeps what is lost"),
      integer_option("seed", 0, between(0, 4294967295), "of stochastic rounding"),
      boolean_option("skip_non_finite", true, "leave out steps whose gradients are not finite")};
}

std::unique_ptr<Precision> make_fp8(const OptionValues& values) {
  return std::make_unique<FP8MixedPrecision>(
      FP8Options{.scaling = values.get<std::string>("scaling"),
                 .format = values.get<std::string>("format"),
                 .amax_history_len = values.get<int64_t>("amax_history_len"),
                 .amax_compute_algo = values.get<std::string>("amax_compute_algo"),
                 .margin = values.get<int64_t>("margin"),
                 .reduce_amax = values.get<bool>("reduce_amax"),
                 .power_of_two_scales = values.get<bool>("power_of_two_scales"),
                 .amax_epsilon = values.get<double>("amax_epsilon"),
                 .exclude = values.get<std::vector<std::string>>("exclude"),
                 .first_and_last_in_bf16 = values.get<bool>("first_and_last_in_bf16"),
                 .skip_non_finite = values.get<bool>("skip_non_finite")});
}

OptionTable fp8_options() {
  return {
      choice_option("scaling", "delayed", {"delayed", "current"},
                    "scales from earlier steps' magnitudes, or from each tensor itself"),
      choice_option("format", "hybrid", {"hybrid", "e4m3"},
                    "hybrid: e4m3 forward, e5m2 gradients; e4m3: both"),
      integer_option("amax_history_len", 1024, between(1, 1'000'000),
                     "delayed: magnitudes of so many steps are kept"),
      choice_option("amax_compute_algo", "max", {"max", "most_recent"},
                    "delayed: which magnitude of the history makes the scale"),
      integer_option("margin", 0, between(0, 64), "delayed: scales are divided by 2^margin"),
      boolean_option("reduce_amax", true, "delayed: magnitudes are the largest over all ranks"),
      boolean_option("power_of_two_scales", false,
                     "current: scales are rounded down to powers of 2"),
      number_option("amax_epsilon", 0, {0, 1e38}, "current: smaller magnitudes count as this"),
      texts_option("exclude", {}, "layers, or modules that hold some, that run in bf16, by name"),
      boolean_option("first_and_last_in_bf16", false, "the first and the last layer run in bf16"),
      boolean_option("skip_non_finite", true,
                     "leave out steps whose gradients or quantized tensors are not finite")};
}

}  // namespace

Registry<Plugin>& plugin_registry() {
  static Registry<Plugin> registry(
      "plugin",
      {{"single",
        "one process, one device",
        {},
        [](auto&) { return std::make_unique<SinglePlugin>(); }},
       {"torch_ddp",
        "data parallel: every rank holds the model, gradients are averaged in buckets during "
        "backward",
        {number_option("bucket_cap_mb", 25, above(0), "gradient bytes of one all-reduce, in MiB"),
         boolean_option("find_unused_parameters", false, "let parameters take no part in a step"),
         boolean_option("broadcast_buffers", true,
                        "rank 0's buffers go to all before each forward"),
         boolean_option("gradient_as_bucket_view", true, "gradients live in the buckets: no copy")},
        make_torch_ddp}});
  return registry;
}

Registry<Precision>& precision_registry() {
  static Registry<Precision> registry(
      "mixed_precision",
      {{"fp32",
        "32-bit floats throughout",
        {},
        [](auto&) { return std::make_unique<FP32Precision>(); }},
       {"fp16",
        "torch's autocast to f16 with a dynamic loss scale",
        {number_option("init_scale", 65536, loss_scale_range, "first loss scale"),
         number_option("growth_factor", 2, above(1), "factor after growth_interval finite steps"),
         number_option("backoff_factor", 0.5, {0, 1, true, true}, "factor after an overflow"),
         integer_option("growth_interval", 2000, at_least(0),
                        "finite steps before the scale grows; 0: never")},
        make_fp16,
        {never_grows("growth_factor")}},
       {"fp16_apex",
        "NVIDIA Apex's amp: levels O0, O1, O2 and O3",
        fp16_apex_options(),
        make_fp16_apex,
        idle_in_fp16_apex()},
       {"fp16_naive",
        "the whole model in f16 with f32 masters, after Colossal-AI",
        fp16_naive_options(),
        make_fp16_naive,
        {never_grows("growth_factor")}},
       fp16_paddle_entry(),
       {"bf16",
        "bf16 without a loss scale: torch's autocast, or a bf16 model",
        bf16_options(),
        make_bf16,
        {{{"seed"},
          [](const OptionValues& v) { return v.get<std::string>("update") != "stochastic"; },
          "unless update is stochastic"}}},
       {"fp8",
        "Linear layers in 8-bit floats, the rest as bf16; emulated exactly where no unit does",
        fp8_options(),
        make_fp8,
        {{{"amax_history_len", "amax_compute_algo", "margin", "reduce_amax"},
          has_choice("scaling", "current"),
          "with scaling = current"},
         {{"power_of_two_scales", "amax_epsilon"},
          has_choice("scaling", "delayed"),
          "with scaling = delayed"}}},
       {"auto", "bf16 where the processor multiplies it natively, else fp32", {}, [](auto&) {
          return precision_registry().make(auto_precision().name);
        }}});
  return registry;
}

}  // namespace booster
