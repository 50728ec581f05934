// Names of the styles in tensor plans (core/nn/module_traits.h), as configs give them.
#pragma once

#include "core/nn/module_traits.h"

#include <string>

namespace booster {

// Throws with the nearest name for an unknown style.
SplitStyle split_style_named(const std::string& name);
const char* name_of(SplitStyle style);

}  // namespace booster
