#include "plugins/low_level_zero.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<LowLevelZeroOptions> zero_fields() {
  using Fields = LowLevelZeroOptions;
  return {field("stage", &Fields::stage, between(1, 2),
                "state that ranks shard: 1 optimizer state, 2 also gradients"),
          field("reduce_bucket_size_in_m", &Fields::reduce_bucket_size_in_m, above(0),
                "elements of one message, in units of 2^20"),
          field("overlap_communication", &Fields::overlap_communication,
                "send gradients during backward"),
          field("overlap_allgather", &Fields::overlap_allgather,
                "gather parameters during the next forward pass, each before its first use"),
          field("cpu_offload", &Fields::cpu_offload,
                "keep a GPU's optimizer state in host memory, and run steps there")};
}

}  // namespace

RegistryEntry<Plugin> low_level_zero_plugin() {
  return {.name = "low_level_zero",
          .description =
              "data parallel with ZeRO 1 and 2: each rank keeps a part of the optimizer "
              "state, and of the gradients",
          .options = zero_fields().options(),
          .make = maker<LowLevelZero>(zero_fields()),
          .options_for = [](const Layout& layout) -> std::optional<nlohmann::json> {
            const int stage = layout.zero_stage;
            if (!layout.is_data_alone() || stage < 1 || stage > 2) return std::nullopt;
            return nlohmann::json{{"stage", stage}};
          }};
}

}  // namespace booster
