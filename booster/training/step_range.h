// A range of steps: "FIRST:LAST", counted from 1, both included. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace booster {

struct StepRange {
  int64_t first = 0, last = 0;
};

// Returns nothing unless the text is two whole numbers with 1 <= FIRST <= LAST.
std::optional<StepRange> parse_step_range(std::string_view text);

}  // namespace booster
