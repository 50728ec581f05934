#include "platform/files/file.h"

#include "platform/error.h"
#include "platform/files/file_operations.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace booster {

namespace {

[[noreturn]] void cannot_be(const char* what, const std::filesystem::path& path, int reason) {
  fail_run("{}: cannot be {}: {}", path.string(), what, std::strerror(reason));
}

}  // namespace

AppendedFile::AppendedFile(const std::filesystem::path& path, Start start) : path_(path) {
  const int mode = start == Start::new_file ? O_EXCL : 0;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | mode, 0666);
  if (descriptor_ < 0) cannot_be("opened for writing", path_, errno);
  bytes_ = ::lseek(descriptor_, 0, SEEK_END);
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::append(std::string_view piece) {
  const int64_t before = bytes_;
  while (!piece.empty()) {
    const ssize_t n = ::pwrite(descriptor_, piece.data(), piece.size(), bytes_);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int reason = n < 0 ? errno : ENOSPC;
      keep(before);
      cannot_be("written", path_, reason);
    }
    bytes_ += n;
    piece.remove_prefix(static_cast<size_t>(n));
  }
}

void AppendedFile::sync() {
  if (::fsync(descriptor_) != 0) cannot_be("written", path_, errno);
  if (is_named_) return;
  sync_folder(parent_of(path_));
  is_named_ = true;
}

bool AppendedFile::is_lost() const {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor_, &opened) != 0 || ::stat(path_.c_str(), &named) != 0 ||
         opened.st_dev != named.st_dev || opened.st_ino != named.st_ino;
}

void AppendedFile::keep(int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) cannot_be("shortened", path_, errno);
  bytes_ = bytes;
}

}  // namespace booster
