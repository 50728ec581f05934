// Signals to the run tool, received through a descriptor to poll instead of handlers.
#pragma once

#include <csignal>

namespace booster {

class Signals {
 public:
  // From now on: SIGCHLD, and SIGINT, SIGTERM and SIGHUP where nobody (nohup, a shell's `&`) has
  // made this process ignore them. SIGPIPE is ignored.
  Signals();
  ~Signals();  // as before
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const { return file_; }
  // The next pending signal, or 0.
  int take() const;

 private:
  sigset_t before_;
  sighandler_t pipe_before_;
  int file_;
};

}  // namespace booster
