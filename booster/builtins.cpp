// The built-in plugins and precision strategies: one row each.
#include "booster/registry.h"

namespace booster {

Registry<Plugin>& plugin_registry() {
  static Registry<Plugin> registry(
      "plugin",
      {{"single", "one process, one device", {}, {}},
       {"torch_ddp",
        "data parallel: every rank holds the model, gradients are averaged in buckets during "
        "backward",
        {number_option("bucket_cap_mb", 25, above(0), "gradient bytes of one all-reduce, in MiB"),
         boolean_option("find_unused_parameters", false, "let parameters take no part in a step"),
         boolean_option("broadcast_buffers", true,
                        "rank 0's buffers go to all before each forward"),
         boolean_option("gradient_as_bucket_view", true, "gradients live in the buckets: no copy")},
        {}}});
  return registry;
}

Registry<Precision>& precision_registry() {
  static Registry<Precision> registry(
      "mixed_precision",
      {{"fp32", "32-bit floats throughout", {}, {}},
       {"fp16",
        "autocast to IEEE half with a dynamic loss scale, as in PyTorch",
        {number_option("init_scale", 65536, above(0), "first loss scale"),
         number_option("growth_factor", 2, above(1), "factor after growth_interval finite steps"),
         number_option("backoff_factor", 0.5, {0, 1, true, true}, "factor after an overflow"),
         integer_option("growth_interval", 2000, at_least(1),
                        "finite steps before the scale grows")},
        {}},
       {"bf16", "autocast to bfloat16, without a loss scale", {}, {}}});
  return registry;
}

}  // namespace booster
