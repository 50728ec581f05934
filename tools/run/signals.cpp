#include "tools/run/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace booster {

namespace {

// A blocked signal is delivered to a descriptor even if its action is to ignore it.
bool is_ignored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(number)) sigaddset(&wanted, number);
  sigprocmask(SIG_BLOCK, &wanted, &before_);
  pipe_before_ = signal(SIGPIPE, SIG_IGN);
  file_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

Signals::~Signals() {
  close(file_);
  signal(SIGPIPE, pipe_before_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::take() const {
  signalfd_siginfo info;
  return read(file_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace booster
