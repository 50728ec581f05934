#include "platform/forks.h"

#include <pthread.h>

#include <atomic>

namespace booster {

namespace {

std::atomic<int> forks = 0;

void count_fork() { ++forks; }

}  // namespace

int fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  (void)registered;
  return forks;
}

}  // namespace booster
