// How samples become a batch: stacked, or padded (loader.h). Pure functions.
#pragma once

#include "core/data/loader.h"

#include <vector>

namespace booster {

// Stacks the samples' tensors by name. Throws if they differ in names, dtypes or shapes.
Batch stacked(const std::vector<Sample>& samples);

}  // namespace booster
