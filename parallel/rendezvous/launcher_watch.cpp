#include "parallel/rendezvous/launcher_watch.h"

#include "platform/blocked_signals.h"
#include "platform/warn.h"

#include <fmt/core.h>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace booster {

namespace {

constexpr auto time_to_save = std::chrono::minutes(10);  // as a run tool gives

struct Ancestor {
  std::string name;
  pid_t parent = 0;
};

// Reads /proc/PID/stat, see proc(5): "PID (NAME) STATE PARENT ...". The name may hold anything.
Ancestor look_at(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos) return {};
  Ancestor found{.name = text.substr(open + 1, close - open - 1)};
  std::istringstream fields(text.substr(close + 1));
  std::string state;
  fields >> state >> found.parent;
  return found;
}

// The kernel cuts a process's name after 15 characters. A suffix names the MPI: mpirun.openmpi.
bool is_launcher(std::string_view name) {
  for (const char* known : {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted",
                            "hydra_pmi_proxy", "slurmstepd"})
    if (name == known || name.starts_with(std::string(known) + ".")) return true;
  return false;
}

// A descriptor that becomes readable when the process ends; -1 if it has, or before Linux 5.3.
int descriptor_of(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)); }

void wait_for_end(int launcher, std::string name) {
  pollfd file = {launcher, POLLIN, 0};
  while (::poll(&file, 1, -1) < 0 && errno == EINTR) continue;
  warn(fmt::format("{} has died, which started this rank: the rank ends too", name));
  ::kill(::getpid(), SIGTERM);
  std::this_thread::sleep_for(time_to_save);
  ::kill(::getpid(), SIGKILL);
}

}  // namespace

pid_t find_launcher() {
  constexpr int most_generations = 64;
  pid_t pid = ::getppid();
  for (int i = 0; i < most_generations && pid > 1; ++i) {
    const Ancestor found = look_at(pid);
    if (is_launcher(found.name)) return pid;
    pid = found.parent;
  }
  return 0;
}

void end_with_launcher() {
  static std::once_flag once;
  std::call_once(once, [] {
    const pid_t launcher = find_launcher();
    if (launcher == 0) return;
    const int descriptor = descriptor_of(launcher);
    if (descriptor < 0) return;
    const kernels::BlockedSignals guard;
    try {
      std::thread(wait_for_end, descriptor, look_at(launcher).name).detach();
    } catch (const std::system_error&) {  // no more threads: the rank may outlive its launcher
      ::close(descriptor);
    }
  });
}

}  // namespace booster
