#include "mixed_precision/strategies/fp16_naive.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"
#include "booster/config/options/scaler_options.h"

namespace booster {

namespace {

FieldTable<FP16NaiveOptions> naive_fields() {
  using Fields = FP16NaiveOptions;
  return {field("initial_scale", &Fields::initial_scale, loss_scale_range, "first loss scale"),
          field("growth_factor", &Fields::growth_factor, above(1),
                "factor after growth_interval finite steps"),
          field("backoff_factor", &Fields::backoff_factor, {0, 1, true, true},
                "factor when it backs off"),
          field("growth_interval", &Fields::growth_interval, at_least(0),
                "finite steps before the scale grows; 0: never"),
          field("min_scale", &Fields::min_scale, at_least(0), "smallest scale; 0: no limit"),
          field("max_scale", &Fields::max_scale, at_least(0), "largest scale; 0: no limit"),
          field("hysteresis", &Fields::hysteresis, at_least(0),
                "overflows since the last growth before it backs off"),
          field("verbose", &Fields::verbose, "reports skipped steps (waits for the device)"),
          field("log_num_zeros_in_grad", &Fields::log_num_zeros_in_grad,
                "reports how many gradients are 0 (waits for the device)")};
}

}  // namespace

RegistryEntry<Precision> fp16_naive_strategy() {
  return {.name = "fp16_naive",
          .description = "the whole model in f16 with f32 masters, after Colossal-AI",
          .options = naive_fields().options(),
          .make = maker<FP16Naive>(naive_fields()),
          .idle = {{{"growth_factor"},
                    option_is("growth_interval", int64_t{0}),
                    "with growth_interval = 0"}},
          .product_dtype = "fp16"};
}

}  // namespace booster
