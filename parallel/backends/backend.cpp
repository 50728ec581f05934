#include "parallel/backends/backend.h"

#include <algorithm>
#include <utility>

namespace booster {

Backend::Backend(Membership members) : members_(std::move(members)), watched_(members_.ranks) {}

void Backend::join(const Backend& whole) {
  call_ = whole.call_;
  for (const int rank : whole.watched_)
    if (!std::ranges::count(watched_, rank)) watched_.push_back(rank);
}

std::string Backend::trouble_among(const std::vector<int>& ranks) const {
  if (!members_.rendezvous) return "";
  return members_.rendezvous->trouble(ranks.empty() ? watched_ : ranks);
}

void Backend::check_members() const {
  if (const std::string trouble = trouble_among(participants()); !trouble.empty())
    fail_run("{}", trouble);
}

void Backend::narrow_to(const std::vector<int>& participants) {
  call_->participants.clear();
  for (const int rank : participants) call_->participants.push_back(members_.ranks[rank]);
}

TimedOut timed_out(const Rendezvous& rendezvous, std::set<int> ranks) {
  std::string names;
  for (const int rank : ranks)
    names += (names.empty()             ? ""
              : rank == *ranks.rbegin() ? " and "
                                        : ", ") +
             rendezvous.describe(rank);
  const std::string text = fmt::format(
      "{} {} but did not arrive at a collective operation within {} s (BOOSTER_TIMEOUT)", names,
      ranks.size() == 1 ? "lives" : "live", group_timeout().count() / 1000.0);
  return {text, std::move(ranks)};
}

}  // namespace booster
