// The start of a config's model: weights from another training, and frozen parts.
#pragma once

#include "booster/config/options/options.h"
#include "core/nn/module.h"

#include <functional>
#include <string>

namespace booster {

// Returns the options that every model has: weights, freeze.
OptionTable start_options();

// Loads model.weights and freezes the tensors that model.freeze names. Calls `report` for each
// tensor of the file that did not match exactly. Throws the errors of load_start_weights. Also
// throws if a pattern matches nothing, or if no parameter remains to train.
void start(const Model& model, const OptionValues& options,
           const std::function<void(const std::string&)>& report);

}  // namespace booster
