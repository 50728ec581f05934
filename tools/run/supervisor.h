// Supervises the processes of a run from start to end.
#pragma once

#include "tools/run/process.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace booster {

struct Outcome {
  int exit_code = 0;
  bool interrupted = false;  // a signal to the launcher ended the run
};

// How a run is stopped.
struct StopRules {
  std::chrono::seconds grace{30};  // from a signal until ranks that still run are killed
  bool at_eof = false;             // the end of standard input counts as SIGTERM
  // Polled some times per second, if set. Returns why the ranks must stop although none here has
  // failed, or "".
  std::function<std::string()> trouble_elsewhere = {};
};

// Starts all processes, forwards their output and waits for them. A reader that does not take the
// output blocks only the ranks that print more.
//
// When one fails, the others are stopped: SIGTERM, then SIGKILL after 5 seconds. At the end the
// first cause is reported on stderr: which rank, why, and its last lines. Ranks that state that
// they only followed another (RankNote::follows) are ranked after the others. Trouble elsewhere is
// reported and stops all ranks in the same way.
//
// SIGINT and SIGTERM to this process are forwarded, SIGHUP as SIGTERM; ranks that still run after
// the grace period are killed. Signals within one second count as one; a later one kills at once. A
// process that leads to another machine (Launch::holds_input) is stopped by closing its input.
// supervise then waits until the tool there has ended its own ranks. A rank that reports that it
// saves (RankNote::saves) and is not being stopped gets up to 10 more minutes.
//
// Ranks that wait long for another (RankNote::waits) are reported while they wait. When supervise
// returns, no process of the ranks' groups is left.
Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, const StopRules& rules);

}  // namespace booster
