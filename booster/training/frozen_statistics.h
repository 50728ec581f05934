// Frozen batch normalisations whose statistics still change.
#pragma once

#include "core/nn/module.h"

#include <string>

namespace booster {

// Returns a sentence that names the modules in training mode whose scales and shifts are all
// frozen, but whose running statistics batches still change; eval() on them would stop that. "" if
// there are none.
std::string frozen_statistics(Module& model);

}  // namespace booster
