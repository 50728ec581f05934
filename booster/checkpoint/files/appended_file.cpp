#include "booster/checkpoint/files/appended_file.h"

#include "kernels/system/error.h"

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
  const ssize_t n = ::pwrite(descriptor_, piece.data(), piece.size(), bytes_);
  if (n == static_cast<ssize_t>(piece.size())) {
    bytes_ += n;
    return;
  }
  const int reason = n < 0 ? errno : ENOSPC;  // a part was written: there is no room for the rest
  [[maybe_unused]] const int left = ::ftruncate(descriptor_, bytes_);
  cannot_be("written", path_, reason);
}

void AppendedFile::keep(int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) cannot_be("shortened", path_, errno);
  bytes_ = bytes;
}

}  // namespace booster
