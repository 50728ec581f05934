// Optimizers by name, with their options as numbers.
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

// "adam", "adamw", "lamb", "rmsprop" or "sgd"; `options` lists what differs from the defaults.
// Errors: unknown name or option (with the nearest legal one), value out of range.
Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const OptimizerOptions& options);

}  // namespace booster
