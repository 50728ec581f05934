// The registry's row of fp16_paddle: its options under Paddle's names, including Fleet's
// amp_configs.
#pragma once

#include "booster/config/registry.h"
#include "mixed_precision/precision.h"

namespace booster {

RegistryEntry<Precision> fp16_paddle_entry();

}  // namespace booster
