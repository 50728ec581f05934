// For threads of our own: the program's signal handlers belong on its threads.
#pragma once

#include <signal.h>

namespace booster::kernels {

// While it lives, the calling thread takes no signals; nor do threads that it starts meanwhile, as
// long as they live.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace booster::kernels
