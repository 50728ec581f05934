// The start of a config's model: weights from another training, and frozen parts.
#pragma once

#include "booster/config/options/options.h"
#include "core/nn/module.h"

#include <functional>
#include <string>

namespace booster {

// Returns the options that every model has: weights, freeze.
OptionTable start_options();

// Loads model.weights and freezes what model.freeze names. Calls `report` for everything in the
// file that did not fit exactly. Throws the errors of load_start_weights, and if a pattern matches
// nothing or nothing is left to train.
void start(const Model& model, const OptionValues& options,
           const std::function<void(const std::string&)>& report);

}  // namespace booster
