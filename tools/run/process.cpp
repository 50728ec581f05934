#include "tools/run/process.h"

#include "parallel/rendezvous/dead_places.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

extern char** environ;

namespace booster {

namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_run("run: cannot make a pipe: {}", std::strerror(errno));
  return {ends[0], ends[1]};
}

std::vector<std::string> environment_of(const Launch& launch) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!launch.environment.count(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : launch.environment) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Does not pass on the terminal: the system stops a background process that reads it.
int input_for(const Launch& launch, const Pipe& held) {
  if (launch.holds_input) return held.read;
  return isatty(STDIN_FILENO) || !launch.inherits_terminal ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                                                           : -1;
}

// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(const char* path, char** arguments, char** environment, pid_t parent,
                         int input, int out, int error, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (error >= 0) dup2(error, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(path, arguments, environment);
  const int reason = errno;
  if (write(report, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

void close_all(std::initializer_list<int> files) {
  for (int file : files)
    if (file >= 0) close(file);
}

}  // namespace

Process start(const Launch& launch) {
  auto arguments = launch.arguments;
  auto environment = environment_of(launch);
  auto argument_pointers = pointers_to(arguments), environment_pointers = pointers_to(environment);
  const bool shows_out = launch.inherits_terminal && isatty(STDOUT_FILENO);
  const bool shows_error = launch.inherits_terminal && isatty(STDERR_FILENO);
  const Pipe out = shows_out ? Pipe{} : make_pipe(), error = shows_error ? Pipe{} : make_pipe();
  const Pipe held = launch.holds_input ? make_pipe() : Pipe{}, report = make_pipe();
  const int input = input_for(launch, held);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0)
    become(launch.path.c_str(), argument_pointers.data(), environment_pointers.data(), parent,
           input, out.write, error.write, report.write);
  const int fork_error = errno;
  if (pid > 0) setpgid(pid, pid);
  close_all({out.write, error.write, input, report.write});
  int reason = 0;
  const bool refused = pid > 0 && read(report.read, &reason, sizeof reason) == sizeof reason;
  close(report.read);
  if (!launch.input.empty() && write(held.write, launch.input.data(), launch.input.size()) < 0)
    fail_run("run: cannot write to '{}': {}", launch.path, std::strerror(errno));
  if (pid > 0 && !refused) return {pid, out.read, error.read, held.write};
  close_all({out.read, error.read, held.write});
  if (refused) waitpid(pid, nullptr, 0);
  fail("run: cannot start '{}': {}", launch.path, std::strerror(refused ? reason : fork_error));
}

namespace {

constexpr const char* parents[] = {"/dev/shm", "/tmp"};

std::string make_folder() {
  for (const char* parent : parents) {
    std::string path = fmt::format("{}/booster-run-{}-XXXXXX", parent, getppid());
    if (mkdtemp(path.data())) return path;
  }
  return "";
}

// Kills the groups and removes the folder. Removes it twice, since a process that is being killed
// may still create a file.
void end_groups(const std::set<pid_t>& groups, const std::string& folder) {
  for (const pid_t group : groups) kill(-group, SIGKILL);
  const auto any_left = [&] {
    return std::any_of(groups.begin(), groups.end(), [](pid_t g) { return kill(-g, 0) == 0; });
  };
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  for (int i = 0; i < 100 && any_left(); ++i) usleep(10000);
  std::filesystem::remove_all(folder, ignored);
}

std::optional<Place> take_or_remove(const std::string& folder) try {
  return Place::take(folder + "/keeper", "booster run");
} catch (...) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  throw;
}

// Runs the keeper process: it sends the name of its folder, reads process groups from the pipe, and
// cleans up when the pipe closes.
[[noreturn]] void keep(int groups_from, int name_to) try {
  umask(077);  // the user's could keep itself out of the folder
  const std::string folder = make_folder();
  if (folder.empty()) _exit(1);
  const auto place = take_or_remove(folder);
  if (write(name_to, folder.data(), folder.size()) < 0) _exit(1);
  close(name_to);
  std::set<pid_t> groups;
  for (pid_t message; read(groups_from, &message, sizeof message) == sizeof message;)
    message > 0 ? void(groups.insert(message)) : void(groups.erase(-message));
  end_groups(groups, folder);
  _exit(0);
} catch (...) {  // the child must not run any code of keep()'s caller
  _exit(1);
}

std::string read_to_end(int file) {
  std::string text;
  char bytes[256];
  for (ssize_t n; (n = read(file, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(n));
  return text;
}

}  // namespace

Keeper::Keeper() {
  for (const char* parent : parents) remove_dead_places(parent, "booster-run-");
  const Pipe pipe = make_pipe(), name = make_pipe();
  pid_ = fork();
  if (pid_ < 0) fail_run("run: cannot start a process: {}", std::strerror(errno));
  if (pid_ == 0) {
    setpgid(0, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    dup2(pipe.read, STDIN_FILENO);
    dup2(name.write, STDOUT_FILENO);
    close_range(STDOUT_FILENO + 1, ~0U, 0);  // copies would keep the readers' pipes open
    keep(STDIN_FILENO, STDOUT_FILENO);
  }
  close_all({pipe.read, name.write});
  pipe_ = pipe.write;
  folder_ = read_to_end(name.read);
  close(name.read);
  if (!folder_.empty()) {
    place_ = Place::take(folder_ + "/tool", "booster run");
    return;
  }
  close(pipe_);
  waitpid(pid_, nullptr, 0);
  fail_run("run: cannot make a folder in /dev/shm or /tmp");
}

Keeper::~Keeper() {
  close(pipe_);
  waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Keeper::tell(pid_t message) {
  if (!lives_ || write(pipe_, &message, sizeof message) == sizeof message) return;
  lives_ = false;
  warn(
      "booster run: the process that guards the ranks has died; the ranks continue, but may "
      "outlive the run tool if it is killed");
}

}  // namespace booster
