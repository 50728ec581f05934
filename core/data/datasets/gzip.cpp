#include "core/data/datasets/gzip.h"

#include "platform/error.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace booster {
namespace {

// A file, compressed or not, that zlib reads.
class GzipFile {
 public:
  GzipFile(const char* what, const std::string& path) : what_(what), path_(path) {
    // Non-blocking, so that open() refuses a pipe instead of waiting for it.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) refuse(std::strerror(errno));
    struct stat status {};
    const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    if (regular) file_ = gzdopen(descriptor, "rb");
    if (file_) return;
    ::close(descriptor);
    refuse(regular ? std::strerror(ENOMEM) : "want a regular file");
  }
  ~GzipFile() {
    if (file_) gzclose(file_);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  // Returns fewer bytes than requested at the end.
  size_t read(uint8_t* to, unsigned bytes) {
    const int n = gzread(file_, to, bytes);
    if (n < 0) refuse(message());
    return static_cast<size_t>(n);
  }
  // Throws for a truncated stream, which shows only here.
  void close() {
    const int code = gzclose(std::exchange(file_, nullptr));
    if (code == Z_BUF_ERROR) refuse("it ends within the compressed data");
    if (code != Z_OK) refuse("it cannot be closed");
  }

 private:
  std::string message() {
    int code = 0;
    const char* text = gzerror(file_, &code);
    return code == Z_ERRNO ? std::strerror(errno) : text;
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    fail_data("{}: cannot read '{}': {}", what_, path_, reason);
  }

  const char* what_;
  const std::string& path_;
  gzFile file_ = nullptr;
};

}  // namespace

std::vector<uint8_t> read_gzip_or_plain(const char* what, const std::string& path, size_t limit) {
  constexpr size_t piece = size_t{1} << 20;
  GzipFile file(what, path);
  std::vector<uint8_t> content;
  for (size_t n = piece; n == piece;) {
    const size_t at = content.size();
    content.resize(at + piece);
    n = file.read(content.data() + at, piece);
    content.resize(at + n);
    if (content.size() > limit)
      fail_data("{}: '{}' is too large; want at most {} bytes", what, path, limit);
  }
  file.close();
  return content;
}

}  // namespace booster
