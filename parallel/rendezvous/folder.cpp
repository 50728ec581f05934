#include "parallel/rendezvous/folder.h"

#include "kernels/system/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace booster {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval(5);
// How long a place may still be held by a process of an earlier run that is about to end.
constexpr std::chrono::seconds handover(10);

// A POSIX lock on the whole file: it belongs to this process, not to its children, and ends with
// it.
bool try_lock(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(file, F_SETLK, &lock) == 0;
}

// Process that holds the lock, or 0.
pid_t lock_holder(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid;
}

int open_private(const std::string& path, int flags) {
  return open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Readers see the whole value or none.
void write_whole(const std::string& path, std::string_view value) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream file(temporary, std::ios::binary);
  file.write(value.data(), static_cast<std::streamsize>(value.size()));
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
    fail_run("rendezvous: cannot write {}: {}", path, std::strerror(errno));
}

void make_private_folder(const std::string& path) {
  std::error_code ignored;
  if (const auto parent = fs::path(path).parent_path(); !parent.empty())
    fs::create_directories(parent, ignored);
  mkdir(path.c_str(), 0700);
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0)
    fail_run("rendezvous: cannot make the folder {}: {}", path, std::strerror(errno));
  check(S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0,
        "rendezvous: {} is not a private folder of this user; want a folder with mode 0700", path);
}

std::string process_label() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return fmt::format("pid {} on {}", getpid(), host);
}

// Calls `attempt` until it gives a value; nothing after `limit`.
template <class Attempt>
auto keep_trying(milliseconds limit, Attempt&& attempt) -> decltype(attempt()) {
  for (const auto end = Clock::now() + limit;;) {
    if (auto result = attempt()) return result;
    if (Clock::now() > end) return {};
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace

FolderRendezvous::FolderRendezvous(std::string folder, int rank, int size)
    : Rendezvous(rank, size), meeting_place_(std::move(folder)) {
  make_private_folder(meeting_place_);
  rank == 0 ? lead() : follow();
  take_place();
  if (rank == 0) put("../current", fmt::format("{} {}", getpid(), folder_));
}

FolderRendezvous::~FolderRendezvous() {
  if (own_lock_ >= 0) close(own_lock_);  // first: of two that leave together one is the last
  std::error_code ignored;
  const bool failed = fs::exists(folder_ + "/failure", ignored);
  if (failed ? is_last() : rank() == 0) fs::remove_all(folder_, ignored);
  if (rank() == 0) {
    fs::remove(meeting_place_ + "/current", ignored);
    fs::remove(meeting_place_ + "/leader", ignored);
  }
  fs::remove(meeting_place_, ignored);  // only if nothing is in it
  for (auto& [rank, member] : members_) close(member.lock);
  if (leader_lock_ >= 0) close(leader_lock_);
}

// An earlier rank 0 may remove the file while we wait for its lock; then it is another file.
bool FolderRendezvous::lock_leader() {
  make_private_folder(meeting_place_);
  const std::string path = meeting_place_ + "/leader";
  if (leader_lock_ >= 0) close(leader_lock_);
  leader_lock_ = open_private(path, O_RDWR | O_CREAT);
  if (leader_lock_ < 0 || !try_lock(leader_lock_)) return false;
  struct stat locked = {}, named = {};
  return fstat(leader_lock_, &locked) == 0 && stat(path.c_str(), &named) == 0 &&
         locked.st_ino == named.st_ino;
}

void FolderRendezvous::lead() {
  if (!keep_trying(handover, [&] { return lock_leader(); }))
    fail_run("rendezvous: rank 0 of this run is already taken by pid {}, which meets in {}",
             leader_lock_ < 0 ? 0 : lock_holder(leader_lock_), meeting_place_);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(meeting_place_, ignored))
    if (entry.path().filename().string().starts_with("run-")) fs::remove_all(entry, ignored);
  folder_ = meeting_place_ + "/run-XXXXXX";
  if (!mkdtemp(folder_.data()))
    fail_run("rendezvous: cannot make a folder in {}: {}", meeting_place_, std::strerror(errno));
}

// `current` counts only while the process that wrote it holds the leader's lock.
std::string FolderRendezvous::current_run() const {
  std::istringstream words(read_all(meeting_place_ + "/current"));
  pid_t leader = 0;
  std::string run;
  if (!(words >> leader) || !std::getline(words >> std::ws, run)) return "";
  const int file = open_private(meeting_place_ + "/leader", O_RDONLY);
  if (file < 0) return "";
  const pid_t holder = lock_holder(file);
  close(file);
  const bool taken = access(fmt::format("{}/rank-{}", run, rank()).c_str(), F_OK) == 0;
  return holder == leader && !taken ? run : "";
}

void FolderRendezvous::follow() {
  if (!keep_trying(group_timeout(), [&] { return !(folder_ = current_run()).empty(); }))
    fail_run("rendezvous: rank 0 did not come to {} within {} s, or another process has rank {}",
             meeting_place_, group_timeout().count() / 1000.0, rank());
}

// The file appears under its name only when it is locked and filled.
void FolderRendezvous::take_place() {
  const std::string name = fmt::format("{}/rank-{}", folder_, rank());
  const std::string temporary = fmt::format("{}.{}.tmp", name, getpid());
  own_lock_ = open_private(temporary, O_RDWR | O_CREAT | O_EXCL);
  const std::string label = process_label();
  const bool written = own_lock_ >= 0 && try_lock(own_lock_) &&
                       write(own_lock_, label.data(), label.size()) == ssize_t(label.size()) &&
                       link(temporary.c_str(), name.c_str()) == 0;
  const int error = errno;
  unlink(temporary.c_str());
  if (!written)
    fail_run("rendezvous: cannot take the place of rank {} in {}: {}", rank(), folder_,
             error == EEXIST ? "another process has it" : std::strerror(error));
}

void FolderRendezvous::put(const std::string& key, std::string_view value) {
  write_whole(folder_ + "/" + key, value);
}

void FolderRendezvous::wait_for(const std::vector<int>& ranks) {
  std::string problem;
  const auto all_here = keep_trying(group_timeout(), [&] {
    return missing(ranks).empty() || !(problem = trouble(ranks)).empty();
  });
  if (!problem.empty()) fail_run("rendezvous: {}", problem);
  if (!all_here)
    fail_run("rendezvous: not all ranks came within {} s; missing: rank {}",
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
    fail_run("rendezvous: a rank did not announce '{}' within {} s", key,
             group_timeout().count() / 1000.0);
  return read_all(path);
}

// Ranks that have not joined yet, as "1, 3".
std::string FolderRendezvous::missing(const std::vector<int>& ranks) const {
  std::lock_guard lock(mutex_);
  std::string list;
  for (int rank : ranks)
    if (rank != this->rank() && !member(rank))
      list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
  return list;
}

const FolderRendezvous::Member* FolderRendezvous::member(int rank) const {
  if (const auto known = members_.find(rank); known != members_.end()) return &known->second;
  const std::string path = fmt::format("{}/rank-{}", folder_, rank);
  const int file = open_private(path, O_RDWR);
  if (file < 0) return nullptr;
  return &(members_[rank] = {file, read_all(path)});
}

bool FolderRendezvous::lives(const Member& other) { return lock_holder(other.lock) != 0; }

bool FolderRendezvous::has_died(int rank) const {
  if (rank == this->rank()) return false;
  if (const Member* found = member(rank)) return !lives(*found);
  return rank == 0 && access(folder_.c_str(), F_OK) != 0;  // rank 0 removes it when it leaves
}

bool FolderRendezvous::is_last() const {
  std::lock_guard lock(mutex_);
  for (int rank = 0; rank < size(); ++rank)
    if (const Member* other = rank == this->rank() ? nullptr : member(rank); other && lives(*other))
      return false;
  return true;
}

std::string FolderRendezvous::trouble(const std::vector<int>& ranks) {
  const std::string reported = read_all(folder_ + "/failure");
  if (!reported.empty()) return reported;
  std::unique_lock lock(mutex_);
  for (int rank : ranks) {
    if (!has_died(rank)) continue;
    lock.unlock();
    const std::string text = describe(rank) + " has ended while other ranks still need it";
    report_failure(text);
    const std::string first = read_all(folder_ + "/failure");  // perhaps why that rank has ended
    return first.empty() ? text : first;
  }
  return "";
}

// The first report wins: a link does not replace, and nobody writes to the file once it is there.
void FolderRendezvous::report_failure(std::string_view text) {
  std::lock_guard lock(mutex_);
  const std::string path = folder_ + "/failure";
  const std::string own = fmt::format("{}-{}", path, rank());
  std::ofstream(own, std::ios::binary) << text;
  std::error_code late;  // somebody was first, or the run is over
  fs::create_hard_link(own, path, late);
  unlink(own.c_str());
}

std::string FolderRendezvous::process(int rank) const {
  if (rank == this->rank()) return process_label();
  std::lock_guard lock(mutex_);
  const Member* found = member(rank);
  return found ? found->label : "";
}

}  // namespace booster
