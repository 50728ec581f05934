// What a config's model begins with: weights of another training, and parts that do not train.
#pragma once

#include "booster/config/options/options.h"
#include "core/nn/module.h"

#include <functional>
#include <string>

namespace booster {

// The options of every model: weights, freeze.
OptionTable start_options();

// Loads model.weights and freezes what model.freeze names. `report` is told what of the file did
// not simply fit. Errors: those of load_start_weights; a pattern that stands for nothing; nothing
// left to train.
void start(const Model& model, const OptionValues& options,
           const std::function<void(const std::string&)>& report);

}  // namespace booster
