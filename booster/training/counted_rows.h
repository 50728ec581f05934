// Which rows of an evaluation's batch count. For the thread that uses the loader.
#pragma once

#include "core/data/loader.h"

#include <cstdint>

namespace booster {

// Returns how many of the current batch's n rows count. With even shares the last batches may
// repeat samples that another rank has. `metric` begins the error: samples are missing from such a
// batch.
int64_t counted_rows(const char* metric, const DataLoader& loader, int64_t n);

}  // namespace booster
