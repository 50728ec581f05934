#include "tools/run/hang_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace booster {

namespace {

// The ranks that wait for one rank at one place.
struct Kept {
  LongWait wait;  // the longest
  std::string ranks;
  int count = 0;
};

// Returns whether a label names a rank: "rank 1" names "rank 1 (pid 4242 on host)".
bool names(const std::string& rank, const std::string& label) {
  return rank == label || rank.starts_with(label + " ");
}

}  // namespace

std::string HangReport::due(const std::map<std::string, LongWait>& waits,
                            const std::map<std::string, std::string>& doing) {
  double longest = 0;
  for (const auto& [label, wait] : waits)
    longest = std::max(longest, monotonic_seconds() - wait.since);
  if (waits.empty()) next_ = 0;
  if (waits.size() != std::exchange(seen_, waits.size()) || waits.empty() || longest < next_)
    return "";
  next_ = 2 * longest;
  std::map<std::pair<std::string, std::string>, Kept> causes, all;
  for (const auto& [label, wait] : waits) {
    const auto add = [&, &label = label, &wait = wait](auto& kept_by) {
      Kept& kept = kept_by[{wait.waits_for, wait.where}];
      if (kept.count == 0 || wait.since < kept.wait.since) kept.wait = wait;
      kept.ranks += (kept.count++ ? ", " : "") + label;
    };
    const bool waits_too = std::any_of(waits.begin(), waits.end(), [&, &wait = wait](auto& other) {
      return names(wait.waits_for, other.first);
    });
    add(all);
    if (!waits_too) add(causes);
  }
  std::string text;
  for (const auto& [place, kept] : causes.empty() ? all : causes) {
    text += fmt::format("{}{}; {} {} for it", text.empty() ? "" : "; ", kept.wait.told(),
                        kept.ranks, kept.count > 1 ? "wait" : "waits");
    for (const auto& [label, what] : doing)
      if (names(kept.wait.waits_for, label)) text += fmt::format(" ({} {})", label, what);
  }
  return text;
}

}  // namespace booster
