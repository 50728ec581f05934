#include "mixed_precision/strategies/fp64.h"

#include "booster/config/builtins.h"

namespace booster {

RegistryEntry<Precision> fp64_strategy() {
  return {.name = "fp64",
          .description = "64-bit floats throughout: slow, for reference runs",
          .make = [](const OptionValues&) { return std::make_unique<FP64>(); },
          .product_dtype = "fp64"};
}

}  // namespace booster
