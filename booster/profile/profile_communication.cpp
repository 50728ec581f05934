// Computes how much of the communication was hidden. Collectives run on their own thread. They cost
// the main thread only its waits and the core that they use.
#include "booster/profile/profile_events.h"
#include "booster/profile/profiler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace booster {

namespace {

using Intervals = std::vector<std::pair<int64_t, int64_t>>;  // disjoint

bool is_wait(const kernels::Span& span) { return std::strcmp(span.name, "wait for ranks") == 0; }

Intervals intervals_of(const ProfileThread& thread, const char* name) {
  Intervals all;
  for (const ProfileEvent& event : thread.events)
    if (std::strcmp(event.span.name, name) == 0)
      all.emplace_back(event.span.begin, event.span.end);
  return all;
}

int64_t overlap(const kernels::Span& span, const Intervals& intervals) {
  int64_t sum = 0;
  for (const auto& [begin, end] : intervals)
    sum += std::max<int64_t>(0, std::min(span.end, end) - std::max(span.begin, begin));
  return sum;
}

}  // namespace

ProfiledCommunication Profiler::communication() const {
  const Intervals backward = intervals_of(threads_[0], "backward"),
                  waits = intervals_of(threads_[0], "wait for ranks");
  Intervals idle;  // in backward
  for (const auto& [begin, end] : waits)
    for (const auto& pass : backward)
      if (begin < pass.second && pass.first < end)
        idle.emplace_back(std::max(begin, pass.first), std::min(end, pass.second));
  ProfiledCommunication sum;
  for (size_t i = 1; i < threads_.size(); ++i)
    for (const ProfileEvent& event : threads_[i].events) {
      if (event.span.kind != kernels::SpanKind::collective || is_wait(event.span)) continue;
      sum.seconds += 1e-9 * static_cast<double>(event.span.end - event.span.begin);
      sum.behind_backward +=
          1e-9 * static_cast<double>(overlap(event.span, backward) - overlap(event.span, idle));
    }
  return sum;
}

}  // namespace booster
