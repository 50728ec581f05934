// Divides the elements of a collective among ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace booster {

struct Part {
  int64_t begin, length;
};

// Returns part `index` of `count` elements divided into `parts` of about the same length; the first
// part is the longest.
inline Part part_of(int64_t count, int index, int parts) {
  const int64_t short_part = count / parts, longer_parts = count % parts;
  return {short_part * index + std::min<int64_t>(longer_parts, index),
          short_part + (index < longer_parts)};
}

// Returns how many of `bytes` to move at a time if they pass through several ranks in turn: an
// eighth. That keeps all ranks busy most of the time, and latency does not dominate.
inline int64_t piece_of(int64_t bytes) {
  return std::clamp<int64_t>(bytes / 8, 64 << 10, 4 << 20);
}

}  // namespace booster
