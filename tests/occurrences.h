// Counts the occurrences of a text in another.
#pragma once

#include <string_view>

namespace booster::testing {

inline size_t occurrences(std::string_view text, std::string_view part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

}  // namespace booster::testing
