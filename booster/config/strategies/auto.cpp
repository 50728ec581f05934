// Not a separate strategy: an alias for another one, which the processor determines.
#include "booster/config/builtins.h"
#include "booster/profile/profiler.h"

namespace booster {

RegistryEntry<Precision> auto_strategy() {
  return {
      .name = "auto",
      .description = "bf16 if the processor multiplies it natively, else fp32",
      .make = [](const OptionValues&) { return precision_registry().make(auto_precision().name); }};
}

}  // namespace booster
