#include "examples/vit_caltech101/stop_signal.h"

#include <csignal>

namespace example {
namespace {

volatile std::sig_atomic_t caught = 0;

void on_signal(int signal) {
  caught = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
}

int stop_signal() { return caught; }

}  // namespace example
