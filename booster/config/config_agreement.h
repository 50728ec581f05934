// Ranks that train together have one config; a file that was edited between their starts, or an old
// copy on another machine, would give replicas that differ, or a wait without end.
#pragma once

#include "booster/config/config.h"
#include "parallel/groups/group.h"

namespace booster {

// A collective. Error on every rank that names a key, two ranks and what they have there. Files and
// folders are left out: they may be elsewhere on another machine.
void check_agreement(const Config& config, const Group& group);

}  // namespace booster
