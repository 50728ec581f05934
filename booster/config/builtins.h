// Declares the entries of the built-in plugins and strategies from the rows of builtins.def; each
// is defined in its own file. A new one needs no line here. Models have a table: models.cpp.
#pragma once

#include "booster/config/registry.h"
#include "core/nn/module.h"
#include "mixed_precision/interface/precision.h"
#include "plugins/interface/plugin.h"

namespace booster {

#define PLUGIN(name) RegistryEntry<Plugin> name##_plugin();
#define STRATEGY(name) RegistryEntry<Precision> name##_strategy();
#include "booster/config/builtins.def"
#undef PLUGIN
#undef STRATEGY
// Return the entries in the order in which configs list them. The first is the default.
std::vector<RegistryEntry<Model>> built_in_models();

}  // namespace booster
