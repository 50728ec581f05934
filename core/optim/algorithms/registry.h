// Optimizers by name, with numeric options.
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

// Makes "adam", "adamw", "lamb", "rmsprop" or "sgd"; `options` overrides defaults. Throws for an
// unknown name or option (with the nearest legal one) and for a value out of range.
Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const OptimizerOptions& options);

}  // namespace booster
