#include "parallel/rendezvous/folder.h"

#include "parallel/rendezvous/secret.h"
#include "parallel/rendezvous/slow_wait.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace booster {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval(5);
// How long an ending process of an earlier run may still hold a place.
constexpr std::chrono::seconds handover(2);

// Writes a value so that readers see all of it or nothing.
void write_whole(const std::string& path, int rank, std::string_view value) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, rank);
  std::ofstream file(temporary, std::ios::binary);
  file.write(value.data(), static_cast<std::streamsize>(value.size()));
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
    fail_run("rendezvous: cannot write {}: {}", path, std::strerror(errno));
}

// Makes the folder. An ending run removes it when it is empty, so it may vanish meanwhile.
void make_private_folder(const std::string& path) {
  std::error_code ignored;
  if (const auto parent = fs::path(path).parent_path(); !parent.empty())
    fs::create_directories(parent, ignored);
  for (int i = 0; i < 100; ++i) {
    const bool made = mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
    if (!made) fail_run("rendezvous: cannot make the folder {}: {}", path, std::strerror(errno));
    if (is_private_folder(path)) return;
    check(access(path.c_str(), F_OK) != 0,
          "rendezvous: {} is not a private folder of this user; want a folder with mode 0700",
          path);
  }
  fail_run("rendezvous: cannot make the folder {}", path);
}

bool is_run_name(std::string_view name) {
  const auto legal = [](unsigned char c) { return c < 128 && std::isalnum(c); };
  return name.starts_with("run-") && name.size() == 10 &&
         std::all_of(name.begin() + 4, name.end(), legal);
}

// The text of the place `leader`: three lines.
struct Leader {
  std::string run;      // name of the subfolder
  std::string process;  // "pid 4242 on host"
  std::string job;

  std::string text() const { return fmt::format("{}\n{}\n{}", run, process, job); }
  // Parses any text; returns nothing if it is not a leader's.
  static std::optional<Leader> from(const std::string& text) {
    const size_t first = text.find('\n'), second = text.find('\n', first + 1);
    if (first == text.npos || second == text.npos) return std::nullopt;
    Leader leader{text.substr(0, first), text.substr(first + 1, second - first - 1),
                  text.substr(second + 1)};
    if (!is_run_name(leader.run)) return std::nullopt;
    leader.process = terminal_text(leader.process);
    leader.job = terminal_text(leader.job);
    return leader;
  }
};

std::string been_stopped() {
  return fmt::format("been stopped for {:g} s (SIGSTOP or a debugger; limit: BOOSTER_HEARTBEAT)",
                     heartbeat_limit().count() / 1000.0);
}

// Calls `attempt` until it returns a value; returns nothing after `limit`.
template <class Attempt>
auto keep_trying(milliseconds limit, Attempt&& attempt) -> decltype(attempt()) {
  for (const auto end = Clock::now() + limit;;) {
    if (auto result = attempt()) return result;
    if (Clock::now() > end) return {};
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace

FolderRendezvous::FolderRendezvous(std::string folder, int rank, int size, std::string job)
    : Rendezvous(rank, size), meeting_place_(std::move(folder)), job_(std::move(job)) {
  const auto start = Clock::now();
  SlowWait wait(rank);
  for (auto last_free = start; folder_.empty(); std::this_thread::sleep_for(poll_interval)) {
    const std::string obstacle = try_to_join();
    const auto now = Clock::now();
    if (obstacle.empty()) last_free = now;
    if (!folder_.empty()) break;
    if (now - last_free > handover || now - start > group_timeout()) give_up(obstacle);
    wait.still([] { return "rank 0"; }, [&] { return meeting_place_; });
  }
  at_quick_exit_.emplace([this] { leave_in_failure(); });
}

void FolderRendezvous::give_up(const std::string& obstacle) const {
  std::error_code ignored;
  fs::remove(meeting_place_, ignored);  // only if it is empty
  if (!obstacle.empty()) fail_run("rendezvous: {}", obstacle);
  fail_run("rendezvous: rank 0 did not arrive at {} within {} s", meeting_place_,
           group_timeout().count() / 1000.0);
}

FolderRendezvous::~FolderRendezvous() {
  at_quick_exit_.reset();
  leave();
}

void FolderRendezvous::leave() {
  own_.reset();  // first: when two ranks leave together, one is the last
  std::error_code ignored;
  const bool failed = fs::exists(folder_ + "/failure", ignored);
  if (failed ? is_last() : rank() == 0) fs::remove_all(folder_, ignored);
  if (leader_) fs::remove(meeting_place_ + "/leader", ignored);
  fs::remove(meeting_place_, ignored);  // only if it is empty
  leader_.reset();
}

// Leaves a failed run. A failed program ends by quick_exit(), and other ranks must not take the end
// of rank 0 for the end of the run.
void FolderRendezvous::leave_in_failure() {
  if (!is_last()) publish_failure(describe(rank()) + " has ended while other ranks still need it");
  leave();
}

std::string FolderRendezvous::try_to_join() {
  make_private_folder(meeting_place_);
  return rank() == 0 ? lead() : follow();
}

// Returns why this rank cannot join the run of `place`, which another process holds.
std::string FolderRendezvous::other_leader(const Place& place) const {
  const auto leader = Leader::from(place.text());
  if (!leader)
    return fmt::format("another process holds {}/leader; want another MASTER_PORT", meeting_place_);
  if (leader->job != job_)
    return fmt::format(
        "another job meets in {}: rank 0 ({}) belongs to {}; this is rank {} of {}; want a "
        "MASTER_PORT for each job, or one BOOSTER_JOB for all ranks of a job",
        meeting_place_, leader->process, leader->job, rank(), job_);
  if (rank() != 0) return "";
  return fmt::format(
      "rank 0 of {} is already taken by {}, which meets in {}; want each rank once, and a "
      "MASTER_PORT for each job",
      job_, leader->process, meeting_place_);
}

std::string FolderRendezvous::lead() {
  const std::string path = meeting_place_ + "/leader";
  if (const auto other = Place::look(path); other && other->is_held()) return other_leader(*other);
  Place::clear(path);
  std::string run = meeting_place_ + "/run-XXXXXX";
  if (!mkdtemp(run.data())) {
    if (errno == ENOENT) return "";  // an earlier run has just removed the meeting place
    fail_run("rendezvous: cannot make a folder in {}: {}", meeting_place_, std::strerror(errno));
  }
  own_ = Place::take(run + "/rank-0", own_process());
  const Leader leader{fs::path(run).filename().string(), own_process(), job_};
  if (own_) leader_ = Place::take(path, leader.text());
  std::error_code ignored;
  if (!leader_) {  // another rank 0 was faster, or the file there is not ours
    own_.reset();
    fs::remove_all(run, ignored);
    return fmt::format("cannot make {}: a file that is not a rank's is in the way", path);
  }
  for (const auto& entry : fs::directory_iterator(meeting_place_, ignored))
    if (is_run_name(entry.path().filename().string()) && entry.path() != run)
      fs::remove_all(entry, ignored);
  write_whole(run + "/secret", 0, hexadecimal(random_bytes(32)));
  folder_ = run;
  return "";
}

// Follows rank 0. A rank that has died leaves its place taken, so its run fails and another may
// start.
std::string FolderRendezvous::follow() {
  const auto place = Place::look(meeting_place_ + "/leader");
  if (!place || !place->is_held()) return "";
  if (const std::string obstacle = other_leader(*place); !obstacle.empty()) return obstacle;
  const std::string run = meeting_place_ + "/" + Leader::from(place->text())->run;
  if (!is_private_folder(run)) return "";  // rank 0 is about to leave
  const std::string path = fmt::format("{}/rank-{}", run, rank());
  own_ = Place::take(path, own_process());
  if (own_) folder_ = run;
  const auto other = own_ ? std::nullopt : Place::look(path);
  if (!other || !other->is_held()) return "";
  return fmt::format(
      "rank {} of {} is already taken by {}, which meets in {}; want each rank once, and a "
      "MASTER_PORT for each job",
      rank(), job_, terminal_text(other->text()), meeting_place_);
}

void FolderRendezvous::put(const std::string& key, std::string_view value) {
  write_whole(folder_ + "/" + key, rank(), value);
}

void FolderRendezvous::wait_for(const std::vector<int>& ranks) {
  std::string problem;
  SlowWait wait(rank());
  const auto all_here = keep_trying(group_timeout(), [&] {
    if (missing(ranks).empty() || !(problem = trouble(ranks)).empty()) return true;
    wait.still([&] { return "rank " + missing(ranks); }, [&] { return meeting_place_; });
    return false;
  });
  if (!problem.empty()) fail_run("rendezvous: {}", problem);
  if (!all_here)
    fail_run("rendezvous: not all ranks arrived within {} s; missing: rank {}",
             group_timeout().count() / 1000.0, missing(ranks));
}

std::string FolderRendezvous::get(const std::string& key, const std::vector<int>& ranks) {
  const std::string path = folder_ + "/" + key;
  std::string problem;
  const auto found = keep_trying(group_timeout(), [&] {
    return access(path.c_str(), F_OK) == 0 || !(problem = trouble(ranks)).empty();
  });
  if (!problem.empty()) fail_run("rendezvous: {}", problem);
  if (!found)
    fail_run("rendezvous: no rank published '{}' within {} s", key,
             group_timeout().count() / 1000.0);
  const auto value = read_private(path);
  if (!value) fail_run("rendezvous: cannot read {}", path);
  return *value;
}

// Returns the ranks that have not joined yet, as "1, 3".
std::string FolderRendezvous::missing(const std::vector<int>& ranks) const {
  std::lock_guard lock(mutex_);
  std::string list;
  for (int rank : ranks)
    if (rank != this->rank() && !member(rank))
      list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
  return list;
}

const Place* FolderRendezvous::member(int rank) const {
  if (const auto known = members_.find(rank); known != members_.end()) return &known->second;
  auto found = Place::look(fmt::format("{}/rank-{}", folder_, rank));
  return found ? &members_.emplace(rank, std::move(*found)).first->second : nullptr;
}

bool FolderRendezvous::has_died(int rank) const {
  if (rank == this->rank()) return false;
  if (const Place* found = member(rank)) return !found->is_held();
  return rank == 0 && access(folder_.c_str(), F_OK) != 0;  // rank 0 removes it when it leaves
}

// A stopped process keeps its place.
bool FolderRendezvous::is_lost(int rank) {
  const Place* found = rank == this->rank() ? nullptr : member(rank);
  const pid_t pid = found ? found->holder().value_or(0) : 0;
  if (heartbeat_.count() == 0 || pid == 0) return false;
  return stopped_.seconds(pid) * 1000 >= static_cast<double>(heartbeat_.count());
}

bool FolderRendezvous::is_last() const {
  std::lock_guard lock(mutex_);
  for (int rank = 0; rank < size(); ++rank)
    if (const Place* other = rank == this->rank() ? nullptr : member(rank);
        other && other->is_held())
      return false;
  return true;
}

std::string FolderRendezvous::first_failure() const {
  return read_private(folder_ + "/failure").value_or("");
}

std::string FolderRendezvous::trouble(const std::vector<int>& ranks) {
  const std::string text = trouble_of(ranks);
  if (!text.empty() && !gave_up_) put_note(RankNote::follows, text);
  return text;
}

std::string FolderRendezvous::trouble_of(const std::vector<int>& ranks) {
  if (std::string reported = first_failure(); !reported.empty()) return reported;
  std::unique_lock lock(mutex_);
  for (int rank : ranks) {
    const std::string end = has_died(rank) ? "ended" : is_lost(rank) ? been_stopped() : "";
    if (end.empty()) continue;
    lock.unlock();
    const std::string text =
        fmt::format("{} has {} while other ranks still need it", describe(rank), end);
    publish_failure(text);
    const std::string first = first_failure();  // possibly why that rank has ended
    return first.empty() ? text : first;
  }
  return "";
}

void FolderRendezvous::report_failure(std::string_view text) {
  gave_up_ = true;
  publish_failure(text);
}

// The first report wins: a link does not replace an existing file, and no rank writes to it later.
void FolderRendezvous::publish_failure(std::string_view text) {
  std::lock_guard lock(mutex_);
  const std::string path = folder_ + "/failure";
  const std::string own = fmt::format("{}-{}", path, rank());
  std::ofstream(own, std::ios::binary) << text;
  std::error_code late;  // another report was first, or the run is over
  fs::create_hard_link(own, path, late);
  unlink(own.c_str());
}

std::string FolderRendezvous::process(int rank) const {
  if (rank == this->rank()) return own_process();
  std::lock_guard lock(mutex_);
  const Place* found = member(rank);
  return found ? terminal_text(found->text()) : "";
}

}  // namespace booster
