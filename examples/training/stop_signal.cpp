#include "examples/training/stop_signal.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace example {
namespace {

constexpr int64_t one_signal = 1'000'000'000;  // nanoseconds

// Signals may arrive on any thread.
std::atomic<int> caught = 0;
std::atomic<int64_t> first_arrival = 0;  // nanoseconds of the monotonic clock
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

// Uses async-signal-safe calls only.
void on_signal(int signal) {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * 1'000'000'000LL + time.tv_nsec;
  int64_t first = 0;
  if (first_arrival.compare_exchange_strong(first, now)) {
    caught = signal;
  } else if (now - first > one_signal) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when the handler returns
  }
}

}  // namespace

void catch_stop_signals() {
  // oneDNN's matrix products let the stack pointer point into a small heap block; a handler on that
  // stack would overwrite the memory below it. Signals go to this thread first.
  static char stack[64 << 10];
  stack_t own = {};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  struct sigaction action = {}, before = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup stays in force
  }
}

int stop_signal() { return caught; }

}  // namespace example
