// The built-in plugins and precision strategies: one row each.
#include "booster/machine.h"
#include "booster/registry.h"
#include "mixed_precision/bf16.h"
#include "mixed_precision/fp16_torch.h"
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
       {"auto",
        "bf16 where the processor multiplies it natively, else fp32",
        {},
        [](auto&) { return precision_registry().make(auto_precision().name); }}});
  return registry;
}

}  // namespace booster
