// Optimizers by name, with numeric options.
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

// Makes the optimizer of a name of torch.optim in lower case, or "lamb"; `options` overrides
// defaults. Throws for an unknown name or option (with the nearest legal one) and for a value out
// of range.
Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const OptimizerOptions& options);

}  // namespace booster
