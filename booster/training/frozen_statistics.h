// Frozen batch normalisations whose statistics still change.
#pragma once

#include "core/nn/module.h"

#include <string>

namespace booster {

// Returns a sentence that names modules in training mode with frozen scales and shifts whose
// running statistics still change. Calling eval() on them stops that. Returns "" if there are none.
std::string frozen_statistics(Module& model);

}  // namespace booster
