// The small models that hybrid_parallel's table trains, with their inputs and targets.
#pragma once

#include "tests/plugins/spread_training.h"

#include <string>
#include <vector>

namespace booster::testing {

// Names of the models, which begin the rows of the table.
const std::vector<std::string>& spread_models();
// Returns a model of 64 features that is not distributed yet.
Spread of_model(const std::string& name, int64_t blocks, int64_t heads);

}  // namespace booster::testing
