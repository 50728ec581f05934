// What ranks along the axis data of a mesh do: one of the plugins for data parallelism.
#pragma once

#include "plugins/data_parallel.h"

#include <memory>

namespace booster {

// For a stage of ZeRO: 0 none, 1 optimizer state, 2 and gradients, 3 and parameters; error for any
// other. `message_mb`: MiB of gradients in one message, at most.
std::unique_ptr<DataParallelPlugin> plugin_along_data(const Mesh& mesh, int64_t zero_stage,
                                                      double message_mb);

}  // namespace booster
