// Checks that ranks that train together have the same config. Otherwise, such as after an edit
// between their starts, replicas would differ or ranks would wait forever.
#pragma once

#include "booster/config/config.h"
#include "parallel/groups/group.h"

namespace booster {

// Throws on every rank if configs differ; the error names a key, two ranks and their values.
// Ignores files and folders, which may differ between machines. Collective.
void check_agreement(const Config& config, const Group& group);

}  // namespace booster
