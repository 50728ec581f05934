// Makes the plugin that the ranks along a mesh's axis data run for data parallelism.
#pragma once

#include "plugins/data_parallel.h"

#include <memory>

namespace booster {

// `zero_stage` is 0 none, 1 optimizer state, 2 also gradients, 3 also parameters; throws for any
// other. `message_mb` is the maximum of MiB of gradients in one message.
std::unique_ptr<DataParallelPlugin> plugin_along_data(const Mesh& mesh, int64_t zero_stage,
                                                      double message_mb);

}  // namespace booster
