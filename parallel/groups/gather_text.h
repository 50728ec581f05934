// Gathers every rank's text on every rank, for reports. A collective: all ranks call it.
#pragma once

#include "parallel/groups/group.h"

#include <string>
#include <vector>

namespace booster {

// Returns the texts by rank.
std::vector<std::string> gather_text(const std::string& mine, const Group& group);

}  // namespace booster
