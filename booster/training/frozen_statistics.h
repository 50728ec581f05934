// Frozen batch normalisations whose statistics still change.
#pragma once

#include "core/nn/module.h"

#include <string>

namespace booster {

// Returns a sentence that names the modules in training mode whose scales and shifts are all frozen
// while batches still change their running statistics. Calling eval() on them stops that. "" if
// there are none.
std::string frozen_statistics(Module& model);

}  // namespace booster
