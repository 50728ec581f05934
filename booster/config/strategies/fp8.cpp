#include "mixed_precision/strategies/fp8.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<FP8Options> fp8_fields() {
  using Fields = FP8Options;
  return {
      field("scaling", &Fields::scaling, {"delayed", "current"},
            "delayed: scales from magnitudes of earlier steps; current: from each tensor"),
      field("format", &Fields::format, {"hybrid", "e4m3"},
            "hybrid: e4m3 forward, e5m2 gradients; e4m3: both"),
      field("amax_history_len", &Fields::amax_history_len, between(1, 1'000'000),
            "delayed: number of steps whose magnitudes are kept"),
      field("amax_compute_algo", &Fields::amax_compute_algo, {"max", "most_recent"},
            "delayed: magnitude of the history that sets the scale"),
      field("margin", &Fields::margin, between(0, 64), "delayed: scales are divided by 2^margin"),
      field("reduce_amax", &Fields::reduce_amax, "delayed: magnitudes are maxima over all ranks"),
      field("power_of_two_scales", &Fields::power_of_two_scales,
            "current: scales are rounded down to powers of 2"),
      field("amax_epsilon", &Fields::amax_epsilon, between(0, 1e38),
            "current: lower bound of magnitudes"),
      field("exclude", &Fields::exclude,
            "names of layers, or of modules with layers, that run in bf16"),
      field("first_and_last_in_bf16", &Fields::first_and_last_in_bf16,
            "the first and the last layer run in bf16"),
      field("skip_non_finite", &Fields::skip_non_finite,
            "skip steps with gradients or quantized tensors that are not finite")};
}

IdleTable idle_fp8_options() {
  return {{{"amax_history_len", "amax_compute_algo", "margin", "reduce_amax"},
           option_is("scaling", std::string("current")),
           "with scaling = current"},
          {{"power_of_two_scales", "amax_epsilon"},
           option_is("scaling", std::string("delayed")),
           "with scaling = delayed"}};
}

}  // namespace

RegistryEntry<Precision> fp8_strategy() {
  return {
      .name = "fp8",
      .description =
          "linear layers in 8-bit floats, the rest as bf16; emulated exactly without 8-bit units",
      .options = fp8_fields().options(),
      .make = maker<FP8>(fp8_fields()),
      .idle = idle_fp8_options(),
      .product_dtype = "fp8"};
}

}  // namespace booster
