#include "examples/vit_caltech101/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace example {
namespace {

volatile std::sig_atomic_t caught = 0;

void on_signal(int signal) {
  caught = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  // oneDNN's matrix products let the stack pointer point into a small block of the heap: a handler
  // that ran on that stack would write over what lies below it.
  static char stack[64 << 10];
  stack_t own = {};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

int stop_signal() { return caught; }

}  // namespace example
