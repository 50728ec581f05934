#include "mixed_precision/strategies/bf16.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<BF16Options> bf16_fields() {
  using Fields = BF16Options;
  return {field("style", &Fields::style, {"autocast", "cast"},
                "autocast: f32 parameters, listed ops in bf16; cast: a bf16 model"),
          field("master_weights", &Fields::master_weights, "cast: steps update f32 masters"),
          field("update", &Fields::update, {"nearest", "stochastic", "kahan"},
                "cast without masters: rounding of new weights; kahan keeps the lost part"),
          field("seed", &Fields::seed, between(0, 4294967295), "of stochastic rounding"),
          field("skip_non_finite", &Fields::skip_non_finite,
                "skip steps with gradients that are not finite"),
          field("round_gradients", &Fields::round_gradients,
                "autocast: round weights' gradients to bf16, as torch does")};
}

bool rounds_the_same_each_time(const OptionValues& values) {
  return values.get<std::string>("update") != "stochastic";
}

}  // namespace

RegistryEntry<Precision> bf16_strategy() {
  return {.name = "bf16",
          .description = "bf16 without a loss scale: torch's autocast, or a bf16 model",
          .options = bf16_fields().options(),
          .make = maker<BF16>(bf16_fields()),
          .idle = {{{"seed"}, rounds_the_same_each_time, "unless update is stochastic"},
                   {{"round_gradients"},
                    option_is("style", std::string("cast")),
                    "in style cast, whose gradients are bf16"}},
          .product_dtype = "bf16"};
}

}  // namespace booster
