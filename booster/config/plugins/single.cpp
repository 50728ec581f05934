#include "booster/config/builtins.h"

namespace booster {

RegistryEntry<Plugin> single_plugin() {
  return {.name = "single",
          .description = "one process, one device",
          .make = [](const OptionValues&) { return std::make_unique<SinglePlugin>(); }};
}

}  // namespace booster
