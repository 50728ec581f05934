// A library that adds a new name, then one that is already taken.
#include "booster/config/registry.h"
#include "mixed_precision/interface/precision.h"

BOOSTER_LIBRARY {
  const auto make = [](const booster::OptionValues&) {
    return std::make_unique<booster::FP32Precision>();
  };
  booster::precision_registry().add({"half_way", "added before the mistake", {}, make});
  booster::precision_registry().add({"fp16", "another fp16", {}, make});
}
