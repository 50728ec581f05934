#include "core/data/archives/left_out.h"

#include "platform/warn.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {

void LeftOut::add(const std::string& reason, const std::string& path) {
  auto some = std::ranges::find(reasons_, reason, &Some::reason);
  if (some == reasons_.end()) some = reasons_.insert(some, {reason, 0, path});
  ++some->count;
  some->first = std::min(some->first, path);
}

std::string LeftOut::text() const {
  int64_t all = 0;
  std::string reasons;
  for (const auto& [reason, count, first] : reasons_) {
    all += count;
    reasons += fmt::format("{}{} ({}: {})", reasons.empty() ? "" : ", ", reason, count,
                           terminal_text(first));
  }
  if (all == 0) return "";
  return fmt::format("{} {} not read: {}", all, all == 1 ? "entry is" : "entries are", reasons);
}

}  // namespace booster
