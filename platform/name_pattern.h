// Matches names against patterns, as a shell matches file names.
#pragma once

#include <string>

#include <fnmatch.h>

namespace booster {

// Returns true if the whole name matches the pattern: * stands for any text (dots and slashes too),
// ? for one character, [ab] for one of several.
inline bool matches_name(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace booster
