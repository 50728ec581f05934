#include "tools/plan/companions.h"

#include "platform/error.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

namespace booster::plan {

namespace {

// Waits until the pipe's write end closes, which also happens when the parent ends.
void wait_at(int pipe) {
  char byte = 0;
  while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void accompany(int pipe, pid_t parent, const std::function<void()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  wait_at(pipe);
  try {
    for (;;) work();
  } catch (const std::exception&) {
    _exit(1);
  }
}

}  // namespace

Companions::Companions(int count, const std::function<void()>& work) {
  if (count <= 0) return;
  std::array<int, 2> ends = {};
  check(pipe2(ends.data(), O_CLOEXEC) == 0, "plan: no pipe; got {}", strerror(errno));
  start_ = ends[1];
  const pid_t parent = getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t process = fork();
    if (process == 0) {
      close(ends[1]);
      accompany(ends[0], parent, work);
    }
    if (process > 0) processes_.push_back(process);
  }
  close(ends[0]);
  if (static_cast<int>(processes_.size()) == count) return;
  end();
  fail_run("plan: too few processes; got {}, want {}, one for each rank", processes_.size(), count);
}

Companions::~Companions() { end(); }

void Companions::end() {
  for (const pid_t process : processes_) kill(process, SIGKILL);
  for (const pid_t process : processes_)
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
  begin();
}

void Companions::begin() {
  if (start_ >= 0) close(start_);
  start_ = -1;
}

}  // namespace booster::plan
