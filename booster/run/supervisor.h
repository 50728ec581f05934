// Supervises the processes of a run from start to end.
#pragma once

#include "booster/run/process.h"

#include <memory>
#include <vector>

namespace booster {

struct Outcome {
  int exit_code = 0;
  bool interrupted = false;  // a signal to the launcher ended the run
};

// Starts all processes, forwards their output and waits for them. When one fails, reports on stderr
// which one, why and its last lines, and stops the others: SIGTERM, then SIGKILL after 5 seconds.
// SIGINT, SIGTERM and SIGHUP to this process are forwarded; ranks that still run 30 seconds later,
// or at a second signal, are killed. When it returns, no process of their groups is left.
// `stop_at_eof`: the end of standard input counts as SIGTERM.
Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, bool stop_at_eof);

}  // namespace booster
