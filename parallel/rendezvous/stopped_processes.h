// Detects processes of this machine that are stopped, by SIGSTOP, Ctrl-Z or a debugger: alive, but
// doing nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace booster {

bool is_stopped(pid_t pid);

// How long processes have been stopped without interruption. One thread at a time.
class StoppedProcesses {
 public:
  // Returns the seconds for which calls have found the process stopped. A gap of more than a second
  // between calls counts as one second: this process may itself have been stopped.
  double seconds(pid_t pid);

 private:
  struct Seen {
    double looked = 0;  // the last look, by the monotonic clock
    bool stopped = false;
    int64_t ticks = 0;  // processor time, of which a stopped process gets none
    double seconds = 0;
  };
  std::map<pid_t, Seen> seen_;
};

}  // namespace booster
