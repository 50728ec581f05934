// Which strategy works with which plugin: the strategy's own answer, and the error that it makes.
// Thread-safe.
#pragma once

#include "booster/config/registry.h"
#include "mixed_precision/interface/precision.h"
#include "plugins/interface/plugin.h"

namespace booster {

// Error that names the pair, the reason and what to use instead if they do not work together.
void check_pair(const Precision& precision, std::string_view plugin, const Layout& layout);

// The layout of a plugin with these options when there are ranks enough. Where it spreads nothing
// because it is alone now, that of two ranks of data.
Layout typical_layout(const RegistryEntry<Plugin>& plugin, const OptionValues& options);

}  // namespace booster
