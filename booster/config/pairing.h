// Checks that a strategy works with a plugin: queries the strategy and turns its refusal into an
// error. Thread-safe.
#pragma once

#include "booster/config/registry.h"
#include "mixed_precision/interface/precision.h"
#include "plugins/interface/plugin.h"

namespace booster {

// Throws an Error with the pair, the reason and an alternative if they are incompatible.
void check_pair(const Precision& precision, std::string_view plugin, const Layout& layout);

// Returns the layout of a plugin with these options when there are enough ranks. For a plugin that
// spreads nothing, because it has a single rank, returns a layout of two data-parallel ranks.
Layout typical_layout(const RegistryEntry<Plugin>& plugin, const OptionValues& options);

}  // namespace booster
