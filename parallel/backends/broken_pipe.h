// Gloo's writes raise SIGPIPE if the peer has closed the connection. By default that silently ends
// the process.
#pragma once

#include <signal.h>

#include <ctime>

namespace booster {

// While it lives, such a write of this thread fails instead of ending the process.
class BrokenPipeFails {
 public:
  BrokenPipeFails() {
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &only_, &before);
    is_ours_ = !sigismember(&before, SIGPIPE);
  }
  ~BrokenPipeFails() {
    if (!is_ours_) return;
    constexpr timespec at_once = {};
    sigtimedwait(&only_, nullptr, &at_once);  // unblocked first, it would be delivered
    pthread_sigmask(SIG_UNBLOCK, &only_, nullptr);
  }
  BrokenPipeFails(const BrokenPipeFails&) = delete;

 private:
  static sigset_t broken_pipe() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
  }
  const sigset_t only_ = broken_pipe();
  bool is_ours_;
};

}  // namespace booster
