// Watches over the processes of a run from start to end.
#pragma once

#include "booster/run/process.h"

#include <memory>
#include <vector>

namespace booster {

struct Outcome {
  int exit_code = 0;
  bool interrupted = false;  // a signal to the run tool ended the run
};

// Starts all, passes their output on, and waits for them. When one fails, says on stderr which, why
// and its last lines, and stops the others: SIGTERM, then SIGKILL after 5 seconds. SIGINT, SIGTERM
// and SIGHUP to this process are passed on; ranks that are still there 30 seconds later, or at a
// second signal, are killed. When it returns, no process of their groups is left.
// `stop_at_eof`: the end of standard input counts as SIGTERM.
Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, bool stop_at_eof);

}  // namespace booster
