// Batch normalisations that a program froze, but whose statistics go on moving.
#pragma once

#include "core/nn/module.h"

#include <string>

namespace booster {

// A sentence that names modules in training mode which keep running statistics of batches although
// all of their scales and shifts are frozen: eval() of them would stop that. "" if there are none.
std::string frozen_statistics(Module& model);

}  // namespace booster
