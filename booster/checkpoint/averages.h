// A training's averaged weights (ParameterAverage), used as weights. A checkpoint keeps them with
// the optimizer's state, which load_model does not read.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/safetensors/safetensors.h"

#include <filesystem>

namespace booster {

// Returns the whole averages by parameter name. Throws an Error of kind data if the checkpoint has
// none. Thread-safe.
TensorMap averages_in(const std::filesystem::path& checkpoint);

}  // namespace booster
