#include "plugins/fsdp.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<FsdpOptions> fsdp_fields() {
  using Fields = FsdpOptions;
  return {field("sharding", &Fields::sharding, {"full", "hybrid"},
                "full: parts over all ranks; hybrid: over those of a machine, each with a copy"),
          field("wrap", &Fields::wrap,
                "names of the modules that are gathered as a whole, with * and ?; [] stands for "
                "the model's blocks"),
          field("prefetch", &Fields::prefetch, at_least(0),
                "how many modules are gathered ahead of their use"),
          field("recompute", &Fields::recompute,
                "those modules keep their inputs only, and run again in backward"),
          field("cpu_offload", &Fields::cpu_offload,
                "a GPU's parts and optimizer state are in host memory, and steps run there")};
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
