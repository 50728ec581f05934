#include "plugins/single.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<SingleOptions> single_fields() {
  using Fields = SingleOptions;
  return {field("on_every_rank", &Fields::on_every_rank,
                "with a run tool, each of several ranks trains its own model")};
}

}  // namespace

RegistryEntry<Plugin> single_plugin() {
  return {.name = "single",
          .description = "one process, one device",
          .options = single_fields().options(),
          .make = maker<Single>(single_fields()),
          .options_for = [](const Layout& layout) -> std::optional<nlohmann::json> {
            if (layout.ranks() > 1) return std::nullopt;
            return nlohmann::json::object();
          }};
}

}  // namespace booster
