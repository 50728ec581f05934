#include "booster/config/builtins.h"
#include "booster/config/options/options.h"
#include "booster/config/options/scaler_options.h"
#include "mixed_precision/strategies/fp16_torch.h"

namespace booster {

namespace {

FieldTable<GradScalerOptions> fp16_fields() {
  using Fields = GradScalerOptions;
  return {field("init_scale", &Fields::init_scale, loss_scale_range, "first loss scale"),
          field("growth_factor", &Fields::growth_factor, above(1),
                "factor after growth_interval finite steps"),
          field("backoff_factor", &Fields::backoff_factor, {0, 1, true, true},
                "factor after an overflow"),
          field("growth_interval", &Fields::growth_interval, at_least(0),
                "finite steps before the scale grows; 0: never")};
}

}  // namespace

RegistryEntry<Precision> fp16_strategy() {
  return {.name = "fp16",
          .description = "torch's autocast to f16 with a dynamic loss scale",
          .options = fp16_fields().options(),
          .make = maker<FP16Torch>(fp16_fields()),
          .idle = {{{"growth_factor"},
                    option_is("growth_interval", int64_t{0}),
                    "with growth_interval = 0"}},
          .product_dtype = "fp16"};
}

}  // namespace booster
