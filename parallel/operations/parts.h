// How the numbers of a collective are cut among ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace booster {

struct Part {
  int64_t begin, length;
};

// The part `index` of `count` elements that are cut into `parts` of about the same length; the
// first is the longest.
inline Part part_of(int64_t count, int index, int parts) {
  const int64_t short_part = count / parts, longer_parts = count % parts;
  return {short_part * index + std::min<int64_t>(longer_parts, index),
          short_part + (index < longer_parts)};
}

// Bytes that move at a time of `bytes` that go through several ranks one after another: an eighth,
// so that all of them are busy most of the time, but not so little that each step's latency counts.
inline int64_t piece_of(int64_t bytes) {
  return std::clamp<int64_t>(bytes / 8, 64 << 10, 4 << 20);
}

}  // namespace booster
