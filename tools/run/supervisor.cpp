#include "tools/run/supervisor.h"

#include "parallel/rendezvous/stopped_processes.h"
#include "platform/error.h"
#include "platform/warn.h"
#include "tools/run/hang_report.h"
#include "tools/run/rank_output.h"
#include "tools/run/signals.h"
#include "tools/run/sink.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

namespace booster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds grace_after_failure(5), grace_for_output(1), grace_for_saving(600);
constexpr seconds grace_after_saving(2);
// How long a failed rank has to end by itself after another rank reports that failure.
constexpr seconds grace_for_cause(1);
constexpr seconds one_signal(1);
// A tool on another machine, and the connection to it, take slightly longer than its ranks.
constexpr seconds grace_for_connection(10);
constexpr int look_interval = 250;   // milliseconds
constexpr char others_failed = 'f';  // sent to the tool on another machine

struct Member {
  const Launch* launch;
  Process process;
  std::shared_ptr<RankRecord> record;
  bool running = true;
  bool killed = false;  // by the signal `code`, else ended with the exit code `code`
  int code = 0;
  int order = 0;            // order in which the ends were seen
  bool after_stop = false;  // ended after a request to stop
  bool follows = false;     // it reports that it failed because of another

  bool failed() const { return !running && code != 0; }
  int exit_code() const { return killed ? 128 + code : code; }
  std::string reason() const {
    if (!killed) return fmt::format("ended with exit code {}", code);
    const char* name = sigabbrev_np(code);
    return fmt::format("was killed by signal {} (SIG{})", code, name ? name : "?");
  }
  // Returns a rank's place in the search for the cause of the failure; the smallest is the cause.
  // If ranks ended at the same time, a killed one comes first: the others failed because of it.
  auto rank_as_cause() const { return std::tuple(after_stop, follows, order, !killed); }
};

class Supervisor {
 public:
  Supervisor(const std::vector<Launch>& launches, Keeper& keeper, const StopRules& rules);
  ~Supervisor();
  Outcome run();

 private:
  void wait_for_event();
  void drain();
  void reap();
  bool has_ended(Member& member);
  void take_signals();
  void pass_on(int signal_number);
  void stop_all(int signal_number, seconds grace);
  bool stop(Member& member, int signal_number);
  void hear_input();
  void stop_if_due();
  void look_elsewhere();
  void look_at_notes();
  void say(const std::string& text) { error_.add("booster run: " + text + "\n"); }
  void say_lost_output();
  const Member* cause() const;
  void report(const Member& member);
  bool any_running() const;
  bool any_saves() const;

  Signals signals_;
  Keeper& keeper_;
  StopRules rules_;
  Sink out_{STDOUT_FILENO}, error_{STDERR_FILENO};
  std::vector<Member> members_;
  std::vector<RankStream> streams_;
  std::optional<Clock::time_point> stop_at_, kill_at_, first_signal_, saves_at_;
  Clock::time_point next_look_ = Clock::now();
  HangReport hang_;
  Outcome outcome_;
  int ends_ = 0;  // seen so far
  bool stopping_ = false, killing_ = false;
};

Supervisor::Supervisor(const std::vector<Launch>& launches, Keeper& keeper, const StopRules& rules)
    : keeper_(keeper), rules_(rules) {
  for (const Launch& launch : launches) {
    auto record = std::make_shared<RankRecord>(launch.log_path);
    const Process process = start(launch);
    keeper_.watch(process.pid);
    if (process.out >= 0) streams_.emplace_back(process.out, out_, launch.prefix, record);
    if (process.error >= 0) streams_.emplace_back(process.error, error_, launch.prefix, record);
    members_.push_back({.launch = &launch, .process = process, .record = std::move(record)});
  }
}

// Ends all processes that the ranks have started, even after an exception. Reaps them only now:
// until then the system cannot reuse their process IDs.
Supervisor::~Supervisor() {
  for (Member& member : members_) {
    kill(-member.process.pid, SIGKILL);
    keeper_.forget(member.process.pid);
    waitpid(member.process.pid, nullptr, 0);
    if (member.process.input >= 0) close(member.process.input);
  }
}

bool Supervisor::any_running() const {
  for (const Member& member : members_)
    if (member.running) return true;
  return false;
}

bool Supervisor::any_saves() const {
  const auto saves = [](const Member& member) {
    return member.running && !note_at(member.launch->notes, RankNote::saves).empty() &&
           !is_stopped(member.process.pid);
  };
  return std::ranges::any_of(members_, saves);
}

Outcome Supervisor::run() {
  while (any_running()) {
    wait_for_event();
    take_signals();
    reap();
    stop_if_due();
    look_elsewhere();
    look_at_notes();
    say_lost_output();
  }
  for (const Member& member : members_) kill(-member.process.pid, SIGKILL);
  if (const Member* first = cause()) {
    outcome_.exit_code = first->exit_code();
    drain();
    report(*first);
  }
  drain();
  return outcome_;
}

// Does not read a stream whose reader is slow, so that its ranks wait as they would for the reader.
// But a stopping rank must not block while it writes its last output.
void Supervisor::wait_for_event() {
  std::vector<pollfd> files = {{signals_.file(), POLLIN, 0},
                               {rules_.at_eof ? STDIN_FILENO : -1, POLLIN, 0},
                               {out_.waiting(), POLLOUT, 0},
                               {error_.waiting(), POLLOUT, 0}};
  const size_t first = files.size();
  for (const RankStream& stream : streams_) {
    if (stopping_ && stream.sink().is_full()) stream.sink().drop();
    files.push_back({stream.sink().is_full() ? -1 : stream.source(), POLLIN, 0});
  }
  const bool looks = members_.size() > 1 || stop_at_ || kill_at_ || rules_.trouble_elsewhere;
  poll(files.data(), files.size(), looks ? look_interval : -1);
  for (size_t i = 0; i < streams_.size(); ++i)
    if (files[first + i].revents) streams_[i].read_some();
  out_.write_some();
  error_.write_some();
  if (files[1].revents) hear_input();
}

// Reads messages from the launching tool to a tool that it started on another machine. A byte means
// that ranks elsewhere have failed; the end of the input means "stop".
void Supervisor::hear_input() {
  char said = 0;
  const ssize_t n = read(STDIN_FILENO, &said, 1);
  if (n > 0 && said == others_failed && !stopping_) stop_all(SIGTERM, grace_after_failure);
  if (n > 0) return;
  rules_.at_eof = false;
  if (!stopping_) pass_on(SIGTERM);
}

// Forwards output written before the end, but does not wait for more: a process that left its group
// may hold a pipe open. It waits for a slow reader until a signal arrives.
void Supervisor::drain() {
  const auto end = Clock::now() + grace_for_output;
  for (RankStream& stream : streams_) {
    while (stream.source() >= 0 && Clock::now() < end) {
      pollfd file = {stream.source(), POLLIN, 0};
      if (poll(&file, 1, 50) > 0) stream.read_some();
    }
    stream.finish();
  }
  while (out_.waiting() >= 0 || error_.waiting() >= 0) {
    pollfd files[] = {
        {out_.waiting(), POLLOUT, 0}, {error_.waiting(), POLLOUT, 0}, {signals_.file(), POLLIN, 0}};
    poll(files, 3, look_interval);
    out_.write_some();
    say_lost_output();
    error_.write_some();
    const int number = signals_.take();
    const bool stopped = number != 0 && number != SIGCHLD;
    if (!stopped && !(outcome_.interrupted && Clock::now() > end)) continue;
    out_.drop();
    error_.drop();
  }
}

void Supervisor::say_lost_output() {
  if (const std::string why = out_.take_trouble(); !why.empty())
    say(fmt::format("standard output: cannot be written: {}; dropping it, the ranks continue",
                    why));
}

void Supervisor::take_signals() {
  while (const int number = signals_.take())
    if (number != SIGCHLD) pass_on(number);
}

// A service manager or a closing terminal may send several signals together.
void Supervisor::pass_on(int signal_number) {
  const auto now = Clock::now();
  outcome_.interrupted = true;
  if (!first_signal_) {
    first_signal_ = now;
    stop_all(signal_number == SIGHUP ? SIGTERM : signal_number, rules_.grace);
  } else if (now - *first_signal_ > one_signal) {
    killing_ = true;
    stop_all(SIGKILL, grace_after_failure);
  }
}

// Returns whether a process has yet to read what was sent to it.
bool is_unread(int input) {
  int bytes = 0;
  return input >= 0 && ioctl(input, FIONREAD, &bytes) == 0 && bytes > 0;
}

// A process that leads to another machine gets a message instead of a signal, and stays until the
// tool there has ended its ranks. Closing the connection would leave them running for a while. One
// that has read nothing has no connection yet, and no ranks. Returns whether it may stay long.
bool Supervisor::stop(Member& member, int signal_number) {
  const bool leads_away = member.launch->holds_input && signal_number != SIGKILL;
  if (!leads_away || is_unread(member.process.input)) {
    kill(-member.process.pid, signal_number);
    return false;
  }
  const int input = std::exchange(member.process.input, -1);
  if (input < 0) return true;
  const bool says_why = outcome_.interrupted || write(input, &others_failed, 1) == 1;
  close(input);
  if (!says_why) kill(-member.process.pid, signal_number);  // the reader is gone
  return true;
}

void Supervisor::stop_all(int signal_number, seconds grace) {
  bool leads_away = false;
  for (Member& member : members_) {
    if (!member.running) continue;
    leads_away = stop(member, signal_number) || leads_away;
  }
  if (leads_away) grace += rules_.grace + grace_for_saving + grace_for_connection;
  stopping_ = true;
  stop_at_.reset();
  kill_at_ = Clock::now() + grace;
}

void Supervisor::stop_if_due() {
  const auto now = Clock::now();
  if (stop_at_ && now > *stop_at_) stop_all(SIGTERM, grace_after_failure);
  if (!kill_at_ || now < *kill_at_) return;
  if (any_saves()) saves_at_ = now;
  // A rank that has just saved still reports that it saves, and ends by itself.
  const bool has_reason = saves_at_ && now < *saves_at_ + grace_after_saving;
  if (!killing_ && now < *kill_at_ + grace_for_saving && has_reason) return;
  killing_ = true;
  stop_all(SIGKILL, grace_after_failure);
}

void Supervisor::look_elsewhere() {
  if (stopping_ || !rules_.trouble_elsewhere) return;
  const std::string text = rules_.trouble_elsewhere();
  if (text.empty()) return;
  say(text + ": stopping the ranks here");
  stop_all(SIGTERM, grace_after_failure);
}

// Leaves the process unreaped: its process ID and group ID must not be reused while we may still
// signal them.
bool Supervisor::has_ended(Member& member) {
  siginfo_t info = {};
  const auto id = static_cast<id_t>(member.process.pid);
  if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
  member.running = false;
  member.killed = info.si_code != CLD_EXITED;
  member.code = info.si_status;
  return true;
}

void Supervisor::reap() {
  const int order = ++ends_;
  bool knows_cause = false, new_failure = false;
  for (Member& member : members_) {
    if (!member.running || !has_ended(member)) continue;
    member.order = order;
    member.after_stop = stopping_ && !outcome_.interrupted;
    member.follows = !note_at(member.launch->notes, RankNote::follows).empty();
    new_failure = new_failure || member.failed();
    knows_cause = knows_cause || (member.failed() && !member.follows);
  }
  if (!new_failure) return;
  if (stopping_) return;
  if (knows_cause) return stop_all(SIGTERM, grace_after_failure);
  if (!stop_at_) stop_at_ = Clock::now() + grace_for_cause;
}

void Supervisor::look_at_notes() {
  if (members_.size() == 1 || stopping_ || Clock::now() < next_look_) return;
  next_look_ = Clock::now() + std::chrono::milliseconds(look_interval);
  std::map<std::string, LongWait> waits;
  std::map<std::string, std::string> doing;
  for (const Member& member : members_) {
    if (!member.running) continue;
    const std::string wait = note_at(member.launch->notes, RankNote::waits);
    const std::string saves = note_at(member.launch->notes, RankNote::saves);
    if (!wait.empty()) waits[member.launch->label] = LongWait::from(wait);
    if (!saves.empty()) doing[member.launch->label] = "saves " + terminal_text(saves);
    if (is_stopped(member.process.pid)) doing[member.launch->label] = "is stopped by a signal";
  }
  if (const std::string text = hang_.due(waits, doing); !text.empty()) say(text);
}

const Member* Supervisor::cause() const {
  const Member* first = nullptr;
  for (const Member& member : members_)
    if (member.failed() && (!first || member.rank_as_cause() < first->rank_as_cause()))
      first = &member;
  return first;
}

void Supervisor::report(const Member& member) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string text = fmt::format("{} (pid {}, host {}) {}", member.launch->label,
                                 member.process.pid, host, member.reason());
  const auto& lines = member.record->last_lines();
  if (!lines.empty()) text += "; its last lines:";
  for (const auto& line : lines) text += "\n  " + terminal_line(line);
  say(text);
}

}  // namespace

Outcome supervise(const std::vector<Launch>& launches, Keeper& keeper, const StopRules& rules) {
  return Supervisor(launches, keeper, rules).run();
}

}  // namespace booster
