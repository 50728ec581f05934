#include "platform/files/file.h"

#include "platform/error.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
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
}

void AppendedFile::keep(int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) cannot_be("shortened", path_, errno);
  bytes_ = bytes;
}

}  // namespace booster
