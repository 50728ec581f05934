// Processes of this machine that are stopped: by SIGSTOP, Ctrl-Z or a debugger. They live, but do
// nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace booster {

bool is_stopped(pid_t pid);

// How long processes have been stopped without a break. One thread at a time.
class StoppedProcesses {
 public:
  // Seconds for which calls have found the process stopped. Calls that lie more than a second
  // apart count as a second: this process may have been stopped itself meanwhile.
  double seconds(pid_t pid);

 private:
  struct Seen {
    double looked = 0;  // the last time, by the monotonic clock
    bool stopped = false;
    int64_t ticks = 0;  // of processor time, which a stopped process gets none of
    double seconds = 0;
  };
  std::map<pid_t, Seen> seen_;
};

}  // namespace booster
