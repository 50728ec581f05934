// Supervises the processes of a run from start to end.
#pragma once

#include "booster/run/process.h"

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
  // Asked some times per second, if there is one: why the ranks must stop although none has failed
  // here; "" while they need not.
  std::function<std::string()> trouble_elsewhere = {};
};

// Starts all processes, forwards their output and waits for them. A reader that does not take the
// output holds up ranks that print more, and nothing else.
//
// When one fails, the others are stopped: SIGTERM, then SIGKILL after 5 seconds. At the end the
// first cause is reported on stderr: which rank, why, and its last lines; ranks that say that they
// only followed another (RankNote::follows) come after those that do not. Trouble elsewhere is
// told, and stops them all the same way.
//
// SIGINT and SIGTERM to this process are forwarded, SIGHUP as SIGTERM; ranks that still run after
// the grace are killed. What arrives within a second counts as one signal; a later one kills at
// once. One that leads to another machine (Launch::holds_input) is stopped by the end of its input,
// and waited for until the tool there has ended its own ranks. While a rank says that it saves
// (RankNote::saves), and is not stopped, it gets up to 10 minutes more.
//
// Ranks that wait long for another (RankNote::waits) are reported while they do. When supervise
// returns, no process of the ranks' groups is left.
Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, const StopRules& rules);

}  // namespace booster
