#include "platform/files/file_operations.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <cstring>

namespace booster {

namespace fs = std::filesystem;

std::string reason(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error",
                     name ? name : std::to_string(error));
}

void cannot(const char* what, const fs::path& path, int error) {
  fail_run("{}: cannot {}: {}", path.string(), what, reason(error));
}

void before_operation(const char* what, const fs::path& path) {
  FileFaults* const faults = file_faults;
  if (!faults) return;
  if (const int error = faults->changing()) cannot(what, path, error);
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

bool rename_to_new(const fs::path& from, const fs::path& to) {
  before_operation("rename to", to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno != EINVAL && errno != ENOSYS) cannot("rename to", to, errno);
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error))) return false;
  rename_to(from, to);
  return true;
}

bool exchange(const fs::path& a, const fs::path& b) {
  FileFaults* const faults = file_faults;
  if (faults && !faults->swaps_folders()) return false;
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
