// Names of the styles in a tensor plan (core/nn/module_traits.h). A plan replaces no module: it
// marks weights (core/autograd/layer_split.h).
#pragma once

#include "core/nn/module_traits.h"

#include <string>

namespace booster {

// Throws with the nearest name for an unknown style.
SplitStyle split_style_named(const std::string& name);
const char* name_of(SplitStyle style);

}  // namespace booster
