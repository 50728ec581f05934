#include "booster/config/builtins.h"

namespace booster {

RegistryEntry<Precision> fp32_strategy() {
  return {.name = "fp32",
          .description = "32-bit floats throughout",
          .make = [](const OptionValues&) { return std::make_unique<FP32Precision>(); },
          .product_dtype = "fp32"};
}

}  // namespace booster
