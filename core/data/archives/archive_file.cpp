#include "core/data/archives/archive_file.h"

#include "platform/error.h"
#include "platform/warn.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace booster {

ArchiveFile::ArchiveFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(fmt::format("cannot open it: {}", std::strerror(errno)));
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(descriptor_);
    fail("not a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

ArchiveFile::~ArchiveFile() { ::close(descriptor_); }

void ArchiveFile::read(uint64_t offset, void* to, size_t bytes) const {
  if (!holds(offset, bytes))
    fail(fmt::format("truncated; got {} bytes, want {} from {} on", size_, bytes, offset));
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(descriptor_, static_cast<char*>(to) + done, bytes - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(fmt::format("cannot read it: {}", std::strerror(errno)));
    if (n == 0) fail("became shorter while it was read");
    done += static_cast<size_t>(n);
  }
}

void ArchiveFile::fail(std::string_view what) const {
  fail_data("archive '{}': {}", terminal_text(path_), what);
}

}  // namespace booster
