// A range of a tensor's elements by number.
#pragma once

#include <cstdint>

namespace booster {

// Elements [begin, end) of a tensor in row-major order; may be none.
struct ElementRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool contains(const ElementRange& other) const {
    return begin <= other.begin && other.end <= end;
  }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace booster
