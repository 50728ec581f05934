#include "parallel/groups/record_at_sigterm.h"

#include "parallel/groups/flight_recorder.h"
#include "platform/blocked_signals.h"
#include "platform/environment.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

namespace booster {

namespace {

std::atomic<int> bell = -1;  // the handler rings it
std::atomic<pid_t> owner = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void end_by(int number) {
  signal(number, SIG_DFL);
  kill(getpid(), number);
}

// Makes only async-signal-safe calls. A child of fork has this handler, but not the thread.
void on_sigterm(int number) {
  const int error = errno;
  const uint64_t ring = 1;
  if (getpid() != owner || write(bell, &ring, sizeof ring) != sizeof ring) end_by(number);
  errno = error;
}

void wait_for_bell(int rank, int size) {
  uint64_t rings = 0;
  while (read(bell, &rings, sizeof rings) < 0 && errno == EINTR) continue;
  FlightRecorder::of_process().write_once(rank, size);
  end_by(SIGTERM);
}

// oneDNN's matrix products point the stack pointer into a small heap block, below which a handler
// must not write. The kernel delivers signals to the first thread as long as it accepts them.
bool has_stack_for_signals() {
  if (gettid() != getpid()) return false;
  stack_t own = {};
  if (sigaltstack(nullptr, &own) != 0) return false;
  if (!(own.ss_flags & SS_DISABLE)) return true;
  static char stack[64 << 10];
  own = {};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  return sigaltstack(&own, nullptr) == 0;
}

}  // namespace

void record_at_sigterm(int rank, int size) {
  if (environment::text("BOOSTER_FLIGHT_RECORD").empty() || owner == getpid()) return;
  struct sigaction action = {};
  if (sigaction(SIGTERM, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  if (!has_stack_for_signals()) return;
  bell = eventfd(0, EFD_CLOEXEC);
  if (bell < 0) return;
  owner = getpid();
  {
    const kernels::BlockedSignals guard;
    std::thread(wait_for_bell, rank, size).detach();
  }
  action = {};
  action.sa_handler = on_sigterm;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace booster
