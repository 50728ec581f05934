// Which strategy works with which plugin: the strategy's own answer, and the error that it makes.
// Thread-safe.
#pragma once

#include "mixed_precision/precision.h"
#include "plugins/plugin.h"

namespace booster {

// Error that names the pair, the reason and what to use instead if they do not work together.
void check_pair(const Precision& precision, const Plugin& plugin, const Layout& layout);

// The plugin's layout; where it spreads nothing because it is alone now, that of two ranks of data.
Layout typical_layout(const Plugin& plugin);

}  // namespace booster
