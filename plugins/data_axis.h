// Makes the plugin for data parallelism along a mesh's axis data.
#pragma once

#include "plugins/data_parallel.h"

#include <memory>

namespace booster {

// Makes it for `zero_stage`: 0 none, 1 optimizer state, 2 also gradients, 3 also parameters. Throws
// for any other stage. A message holds at most `message_mb` MiB of gradients.
std::unique_ptr<DataParallelPlugin> plugin_along_data(const Mesh& mesh, int64_t zero_stage,
                                                      double message_mb);

}  // namespace booster
