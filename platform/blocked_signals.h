// For the library's own threads: the program's signal handlers must run on the program's threads.
#pragma once

#include <signal.h>

namespace booster::kernels {

// Blocks all signals on the calling thread while it lives, and always on threads started meanwhile.
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
