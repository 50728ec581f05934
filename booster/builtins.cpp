// The built-in plugins and precision strategies: one row each.
#include "booster/machine.h"
#include "booster/registry.h"
#include "mixed_precision/bf16.h"
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

std::unique_ptr<Precision> make_bf16(const OptionValues& values) {
  return std::make_unique<BF16MixedPrecision>(
      BF16Options{.skip_non_finite = values.get<bool>("skip_non_finite")});
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
        {number_option("init_scale", 65536, {0, 0x1p126, true}, "first loss scale"),
         number_option("growth_factor", 2, above(1), "factor after growth_interval finite steps"),
         number_option("backoff_factor", 0.5, {0, 1, true, true}, "factor after an overflow"),
         integer_option("growth_interval", 2000, at_least(0),
                        "finite steps before the scale grows; 0: never")},
        make_fp16},
       {"bf16",
        "torch's autocast to bf16, without a loss scale",
        {boolean_option("skip_non_finite", true, "leave out steps whose gradients are not finite")},
        make_bf16},
       {"fp8",
        "Linear layers in 8-bit floats, the rest as bf16; emulated exactly on processors without",
        fp8_options(), make_fp8},
       {"auto", "bf16 where the processor multiplies it natively, else fp32", {}, [](auto&) {
          return precision_registry().make(auto_precision().name);
        }}});
  return registry;
}

}  // namespace booster
