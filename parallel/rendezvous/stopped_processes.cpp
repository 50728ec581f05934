#include "parallel/rendezvous/stopped_processes.h"

#include "parallel/rendezvous/rank_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace booster {

namespace {

constexpr double stop_look_every = 0.25, longest_gap = 1;  // seconds

struct ProcessState {
  bool stopped = false;
  int64_t ticks = 0;
};

// After the program's name, which is in parentheses, come the state, ten numbers, and the times in
// user mode and in the kernel (proc(5)).
ProcessState state_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(") ");
  if (end == text.npos) return {};
  std::istringstream fields(text.substr(end + 2));
  std::string state, skipped;
  int64_t user = 0, kernel = 0;
  fields >> state;
  for (int i = 0; i < 10; ++i) fields >> skipped;
  fields >> user >> kernel;
  return {state == "T" || state == "t", user + kernel};
}

}  // namespace

bool is_stopped(pid_t pid) { return state_of(pid).stopped; }

double StoppedProcesses::seconds(pid_t pid) {
  const double now = monotonic_seconds();
  Seen& seen = seen_[pid];
  const double gap = now - seen.looked;
  if (gap < stop_look_every) return seen.seconds;
  const ProcessState state = state_of(pid);
  const bool still = seen.stopped && state.stopped && state.ticks == seen.ticks;
  seen = {now, state.stopped, state.ticks, still ? seen.seconds + std::min(gap, longest_gap) : 0};
  return seen.seconds;
}

}  // namespace booster
