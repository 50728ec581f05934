// Signals to the run tool, received through a descriptor to poll instead of handlers.
#pragma once

#include <csignal>

namespace booster {

class Signals {
 public:
  // Receives SIGCHLD from now on, and SIGINT, SIGTERM and SIGHUP unless this process was started
  // ignoring them (nohup, a shell's `&`). Ignores SIGPIPE.
  Signals();
  ~Signals();  // restores the previous state
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const { return file_; }
  // Returns the next pending signal, or 0.
  int take() const;

 private:
  sigset_t before_;
  sighandler_t pipe_before_;
  int file_;
};

}  // namespace booster
