#include "platform/files/file_operations.h"

#include "platform/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace booster {

namespace fs = std::filesystem;

namespace {

struct InjectedFailure {
  std::atomic<int64_t> operations_left{0};  // 0: off
  std::atomic<int> error{0};
  std::atomic<bool> no_exchange{false};
  std::atomic<int> delay_ms{0};
  std::atomic<int64_t> reads_left{0};  // 0: off
  std::atomic<int> read_error{0};

  InjectedFailure() {
    const char* text = std::getenv("BOOSTER_FAIL_WRITE");
    if (!text) return;
    char* end = nullptr;
    operations_left = std::strtoll(text, &end, 10);
    const std::string_view name = *end == ':' ? end + 1 : "ENOSPC";
    if (name == "ENOSPC") error = ENOSPC;
    if (name == "EDQUOT") error = EDQUOT;
    if (name == "EIO") error = EIO;
  }
};

InjectedFailure& injected() {
  static InjectedFailure failure;
  return failure;
}

}  // namespace

void fail_file_operation(int64_t n, int error) {
  injected().error = error;
  injected().operations_left = n;
}

void fail_file_read(int64_t n, int error) {
  injected().read_error = error;
  injected().reads_left = n;
}

void delay_file_operations(int milliseconds) { injected().delay_ms = milliseconds; }

void forbid_exchange(bool forbidden) { injected().no_exchange = forbidden; }

std::string reason(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error",
                     name ? name : std::to_string(error));
}

void cannot(const char* what, const fs::path& path, int error) {
  fail_run("{}: cannot {}: {}", path.string(), what, reason(error));
}

void before_operation(const char* what, const fs::path& path) {
  auto& failure = injected();
  if (const int delay = failure.delay_ms; delay > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  if (failure.operations_left == 0 || --failure.operations_left > 0) return;
  if (failure.error == 0) ::raise(SIGKILL);
  cannot(what, path, failure.error);
}

int injected_read_error() {
  auto& failure = injected();
  if (failure.reads_left == 0 || --failure.reads_left > 0) return 0;
  return failure.read_error;
}

ErrorKind kind_of_read_error(int error) {
  const bool is_known = error == ENOENT || error == ENOTDIR || error == ELOOP ||
                        error == ENAMETOOLONG || error == ENXIO;
  return is_known ? ErrorKind::data : ErrorKind::failed;
}

void sync_folder(const fs::path& folder) {
  before_operation("sync the folder", folder);
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.value < 0) cannot("open the folder", folder, errno);
  // Some file systems cannot sync a folder and return EINVAL; nothing more can be done there.
  if (::fsync(descriptor.value) != 0 && errno != EINVAL) cannot("sync the folder", folder, errno);
}

void rename_to(const fs::path& from, const fs::path& to) {
  before_operation("rename to", to);
  if (::rename(from.c_str(), to.c_str()) != 0) cannot("rename to", to, errno);
}

bool exchange(const fs::path& a, const fs::path& b) {
  if (injected().no_exchange) return false;
  before_operation("replace", b);
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) cannot("replace", b, errno);
  return false;
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace booster
