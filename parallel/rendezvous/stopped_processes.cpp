#include "parallel/rendezvous/stopped_processes.h"

#include "parallel/rank_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace booster {

namespace {
constexpr double look_every = 0.25, longest_gap = 1;  // seconds
}

// The state follows the program's name, which is in parentheses.
bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(") ");
  return end != text.npos && (text[end + 2] == 'T' || text[end + 2] == 't');
}

double StoppedProcesses::seconds(pid_t pid) {
  const double now = monotonic_seconds();
  Seen& seen = seen_[pid];
  const double gap = now - seen.looked;
  if (gap < look_every) return seen.seconds;
  const bool before = seen.stopped;
  seen.looked = now;
  seen.stopped = is_stopped(pid);
  seen.seconds = before && seen.stopped ? seen.seconds + std::min(gap, longest_gap) : 0;
  return seen.seconds;
}

}  // namespace booster
