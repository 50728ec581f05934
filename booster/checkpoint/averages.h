// The averages of a training's weights (ParameterAverage) as weights: a checkpoint keeps them with
// the optimizer's state, where load_model does not look.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/training/boosted.h"

#include <filesystem>

namespace booster {

// Whole, by parameter. Error of kind data if the checkpoint has none. Thread-safe.
TensorMap averages_in(const std::filesystem::path& checkpoint);

// Copies them into the parameters; what is no parameter (statistics of batch norms) stays. All
// ranks call it; an error on any is one on all, and changes nothing.
void load_averages(const BoostedModel& model, const std::filesystem::path& checkpoint);

}  // namespace booster
