// Finds a row of a profile.
#pragma once

#include "booster/profile/profiler.h"

#include <string_view>
#include <vector>

namespace booster::test {

// Returns nullptr if there is none.
inline const ProfileRow* find_row(const std::vector<ProfileRow>& rows, std::string_view name,
                                  std::string_view phase) {
  for (const auto& row : rows)
    if (row.name == name && row.phase == phase) return &row;
  return nullptr;
}

}  // namespace booster::test
