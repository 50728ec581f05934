#include "examples/training/output_folder.h"

#include "examples/training/console.h"

#include <booster/booster.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace example {

using namespace booster;
namespace fs = std::filesystem;

namespace {

// Where and when a process runs. Two machines may have one name, and containers on one machine
// several; the boot's identity tells which share a kernel, and with it the locks.
nlohmann::json this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char start[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(start, sizeof start, "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&now, &utc));
  return {{"host", host}, {"process", ::getpid()}, {"started", start}, {"boot", boot}};
}

// What the file says; null if that is nothing, or not what a run writes.
nlohmann::json owner_in(int descriptor) {
  char text[1024];
  const ssize_t n = ::pread(descriptor, text, sizeof text, 0);
  const auto owner = report::json_of({text, static_cast<size_t>(std::max<ssize_t>(n, 0))});
  const auto holds_text = [&](const char* key) {
    return owner.contains(key) && owner[key].is_string();
  };
  const bool whole = owner.is_object() && holds_text("host") && holds_text("started") &&
                     holds_text("boot") && owner.contains("process");
  return whole ? owner : nlohmann::json();
}

// Its locks cannot be seen from here: neither the same boot of a machine, nor an earlier one.
bool elsewhere(const nlohmann::json& owner, const nlohmann::json& self) {
  return !owner.is_null() && owner["boot"] != self["boot"] && owner["host"] != self["host"];
}

std::string name_of(const nlohmann::json& owner) {
  if (owner.is_null()) return "another process";
  return fmt::format("process {} on {}, started {}", owner["process"].dump(),
                     owner["host"].get<std::string>(), owner["started"].get<std::string>());
}

bool same_file(int descriptor, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

[[noreturn]] void cannot(const char* what, const fs::path& lock) {
  fail_run("{}: cannot {}: {}", lock.string(), what, std::strerror(errno));
}

// The lock's file, open and locked; an owner that removes it in between makes it begin again.
int locked(const fs::path& lock) {
  for (;;) {
    const int descriptor = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0) cannot("open", lock);
    const int reason = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    check(reason != EWOULDBLOCK,
          "train.output_dir: {} is in use; got {}, want another folder, or the end of that run",
          lock.parent_path().string(), name_of(owner_in(descriptor)));
    if (reason != 0)
      warn(fmt::format("{}: cannot lock: {}; a second run here would not be noticed", lock.string(),
                       std::strerror(reason)));
    if (same_file(descriptor, lock)) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& path) : lock_(path / "run.lock") {
  make_folders(path);
  descriptor_ = locked(lock_);
  const nlohmann::json self = this_process(), owner = owner_in(descriptor_);
  if (elsewhere(owner, self)) {
    ::close(descriptor_);
    fail(
        "train.output_dir: {} is in use; got {}, want another folder, or without {} if that "
        "process is no more",
        path.string(), name_of(owner), lock_.string());
  }
  const std::string text = self.dump() + "\n";
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    cannot("write", lock_);
}

OutputFolder::~OutputFolder() {
  if (!lost()) ::unlink(lock_.c_str());
  ::close(descriptor_);
}

bool OutputFolder::lost() const { return !same_file(descriptor_, lock_); }

}  // namespace example
