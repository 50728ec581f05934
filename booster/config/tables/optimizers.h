// The optimizers that a config may name, with their options. Thread-safe.
#pragma once

#include "booster/config/tables/named_entry.h"
#include "core/optim/optimizer.h"

namespace booster {

using OptimizerEntry = NamedEntry<Optimizer(const ParameterGroups&, const OptionValues&)>;
const std::vector<OptimizerEntry>& optimizer_entries();

}  // namespace booster
