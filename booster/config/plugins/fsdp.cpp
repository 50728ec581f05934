#include "plugins/fsdp.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<FsdpOptions> fsdp_fields() {
  using Fields = FsdpOptions;
  return {
      field("sharding", &Fields::sharding, {"full", "hybrid"},
            "full: parts over all ranks; hybrid: parts over the ranks of each machine"),
      field("wrap", &Fields::wrap,
            "patterns of the modules to gather as a whole, with * and ?; []: the model's blocks"),
      field("prefetch", &Fields::prefetch, at_least(0),
            "number of modules to gather ahead of their use"),
      field("recompute", &Fields::recompute,
            "these modules keep only their inputs and run again in backward"),
      field("cpu_offload", &Fields::cpu_offload,
            "keep a GPU's parts and optimizer state in host memory, and run steps there")};
}

}  // namespace

RegistryEntry<Plugin> fsdp_plugin() {
  return {.name = "fsdp",
          .description =
              "data parallel with ZeRO 3: each rank keeps a part of parameters, "
              "gradients and optimizer state (also called gemini)",
          .options = fsdp_fields().options(),
          .make = maker<Fsdp>(fsdp_fields()),
          .options_for = [](const Layout& layout) -> std::optional<nlohmann::json> {
            if (!layout.is_data_alone() || layout.zero_stage != 3) return std::nullopt;
            return nlohmann::json::object();
          },
          .also_called = "gemini"};
}

}  // namespace booster
