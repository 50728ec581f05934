// For the library's own threads: the program's signal handlers must run on the program's threads.
#pragma once

#include <signal.h>

namespace booster::kernels {

// While it lives, the calling thread takes no signals. Threads that it starts meanwhile never do.
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
