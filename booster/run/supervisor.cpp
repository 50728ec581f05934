#include "booster/run/supervisor.h"

#include "booster/run/rank_output.h"
#include "kernels/system/error.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

namespace booster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds grace_after_failure(5), grace_after_signal(30), grace_for_output(1);

// Receives signals through a descriptor to poll instead of handlers; restores the old state when
// destroyed.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, number);
    sigprocmask(SIG_BLOCK, &wanted, &before_);
    pipe_before_ = signal(SIGPIPE, SIG_IGN);
    file_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    close(file_);
    signal(SIGPIPE, pipe_before_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int file() const { return file_; }
  // The next pending signal, or 0.
  int take() const {
    signalfd_siginfo info;
    return read(file_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_;
  sighandler_t pipe_before_;
  int file_;
};

struct Member {
  const Launch* launch;
  Process process;
  std::shared_ptr<RankRecord> record;
  bool running = true;
  int status = 0;  // as from waitpid
  bool failed() const { return !running && status != 0; }
};

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string reason_of(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return fmt::format("was killed by signal {} (SIG{})", WTERMSIG(status), name ? name : "?");
}

class Supervisor {
 public:
  Supervisor(const std::vector<Launch>& launches, Keeper& keeper, bool stop_at_eof);
  ~Supervisor();
  Outcome run();

 private:
  void wait_for_event();
  void drain();
  void reap();
  void take_signals();
  void pass_on(int signal_number);
  void report(const Member& member);
  void stop_all(int signal_number, seconds grace);
  bool any_running() const;

  Signals signals_;
  Keeper& keeper_;
  bool watches_input_;
  std::vector<Member> members_;
  std::vector<RankStream> streams_;
  std::optional<Clock::time_point> kill_at_;
  Outcome outcome_;
  bool failed_ = false;
};

Supervisor::Supervisor(const std::vector<Launch>& launches, Keeper& keeper, bool stop_at_eof)
    : keeper_(keeper), watches_input_(stop_at_eof) {
  for (const Launch& launch : launches) {
    auto record = std::make_shared<RankRecord>(launch.log_path);
    const Process process = start(launch);
    keeper_.watch(process.pid);
    if (process.out >= 0) streams_.emplace_back(process.out, STDOUT_FILENO, launch.prefix, record);
    if (process.error >= 0)
      streams_.emplace_back(process.error, STDERR_FILENO, launch.prefix, record);
    members_.push_back({&launch, process, std::move(record)});
  }
}

// However the run ends, even by an exception, this ends everything that the ranks have started.
Supervisor::~Supervisor() {
  for (Member& member : members_) {
    kill(-member.process.pid, SIGKILL);
    if (member.running) waitpid(member.process.pid, nullptr, 0);
    keeper_.forget(member.process.pid);
    if (member.process.input >= 0) close(member.process.input);
  }
}

bool Supervisor::any_running() const {
  for (const Member& member : members_)
    if (member.running) return true;
  return false;
}

Outcome Supervisor::run() {
  while (any_running()) {
    wait_for_event();
    take_signals();
    reap();
    if (kill_at_ && Clock::now() > *kill_at_) stop_all(SIGKILL, grace_after_failure);
  }
  for (const Member& member : members_) kill(-member.process.pid, SIGKILL);
  drain();
  for (const Member& member : members_)
    if (member.failed() && outcome_.exit_code == exit_code_of(member.status) && failed_) {
      report(member);
      break;
    }
  return outcome_;
}

void Supervisor::wait_for_event() {
  std::vector<pollfd> files = {{signals_.file(), POLLIN, 0},
                               {watches_input_ ? STDIN_FILENO : -1, POLLIN, 0}};
  for (const RankStream& stream : streams_) files.push_back({stream.source(), POLLIN, 0});
  poll(files.data(), files.size(), kill_at_ ? 100 : -1);
  for (size_t i = 0; i < streams_.size(); ++i)
    if (files[i + 2].revents) streams_[i].read_some();
  if (!files[1].revents) return;
  char byte;
  if (read(STDIN_FILENO, &byte, 1) > 0) return;
  watches_input_ = false;
  pass_on(SIGTERM);
}

// Forwards output written before the end, but does not wait: a process that left its group may hold
// a pipe open.
void Supervisor::drain() {
  const auto end = Clock::now() + grace_for_output;
  for (RankStream& stream : streams_) {
    while (stream.source() >= 0 && Clock::now() < end) {
      pollfd file = {stream.source(), POLLIN, 0};
      if (poll(&file, 1, 50) > 0) stream.read_some();
    }
    stream.finish();
  }
}

void Supervisor::take_signals() {
  while (const int number = signals_.take())
    if (number != SIGCHLD) pass_on(number);
}

void Supervisor::pass_on(int signal_number) {
  const bool again = outcome_.interrupted;
  outcome_.interrupted = true;
  again ? stop_all(SIGKILL, grace_after_failure) : stop_all(signal_number, grace_after_signal);
}

void Supervisor::stop_all(int signal_number, seconds grace) {
  for (const Member& member : members_)
    if (member.running) kill(-member.process.pid, signal_number);
  kill_at_ = Clock::now() + grace;
}

// Of ranks that are found dead at the same time, one killed by a signal is taken as the first: the
// others fail because they lost it.
void Supervisor::reap() {
  const Member* first = nullptr;
  for (Member& member : members_) {
    if (!member.running || waitpid(member.process.pid, &member.status, WNOHANG) <= 0) continue;
    member.running = false;
    if (member.failed() && (!first || (WIFSIGNALED(member.status) && !WIFSIGNALED(first->status))))
      first = &member;
  }
  if (!first || failed_) return;
  failed_ = true;
  outcome_.exit_code = exit_code_of(first->status);
  if (!outcome_.interrupted) stop_all(SIGTERM, grace_after_failure);
}

void Supervisor::report(const Member& member) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string text = fmt::format("booster run: {} (pid {}, host {}) {}", member.launch->label,
                                 member.process.pid, host, reason_of(member.status));
  const auto& lines = member.record->last_lines();
  if (!lines.empty()) text += "; its last lines:";
  for (const auto& line : lines) text += "\n  " + line;
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

}  // namespace

Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, bool stop_at_eof) {
  return Supervisor(launches, keeper, stop_at_eof).run();
}

}  // namespace booster
