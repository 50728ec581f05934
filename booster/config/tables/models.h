// The entries of the library's models in the registry, in the order in which configs list them.
#pragma once

#include "booster/config/registry.h"
#include "core/nn/module.h"

#include <vector>

namespace booster {

// The first is the default of a config.
std::vector<RegistryEntry<Model>> built_in_models();

}  // namespace booster
