#include "booster/training/boosted.h"

#include <charconv>

namespace booster {

namespace {

// Returns the whole text as a number; 0 if it is not one.
int64_t number_in(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
}

}  // namespace

std::optional<StepRange> parse_step_range(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const StepRange range = {number_in(text.substr(0, colon)), number_in(text.substr(colon + 1))};
  if (range.first < 1 || range.last < range.first) return std::nullopt;
  return range;
}

}  // namespace booster
