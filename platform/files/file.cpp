#include "platform/files/file.h"

#include "platform/files/atomic_file.h"
#include "platform/files/file_operations.h"
#include "platform/files/sha256.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr size_t piece = size_t{4} << 20;

const char* file_type(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  return "a socket";
}

[[noreturn]] void cannot_read(const char* what, const fs::path& path, int error, ErrorKind kind) {
  const ErrorKind known = kind == ErrorKind::data ? kind_of_read_error(error) : kind;
  booster::raise(known, fmt::format("{}: cannot {}: {}", path.string(), what, reason(error)));
}

// Reads from the current position or from `offset`; returns the number of bytes, or throws.
size_t read_some(int descriptor, void* to, size_t bytes, off_t offset, const fs::path& path,
                 ErrorKind kind) {
  for (;;) {
    const ssize_t n = ::pread(descriptor, to, bytes, offset);
    const int error = n < 0 ? errno : read_fault();
    if (error == EINTR) continue;
    if (error) cannot_read("read", path, error, kind);
    return static_cast<size_t>(n);
  }
}

// Opens a regular file and sets `size`. The open is non-blocking, so a pipe causes an error instead
// of a wait.
int open_regular(const fs::path& path, uint64_t& size, ErrorKind kind) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (const int error = descriptor < 0 ? errno : read_fault()) {
    if (descriptor >= 0) ::close(descriptor);
    cannot_read("open", path, error, kind);
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    booster::raise(kind, fmt::format("{}: cannot read; got {}, want a regular file", path.string(),
                                     file_type(status.st_mode)));
  }
  size = static_cast<uint64_t>(status.st_size);
  return descriptor;
}

void add(Sha256* hash, const void* data, size_t bytes) {
  if (hash) hash->add({static_cast<const std::byte*>(data), bytes});
}

}  // namespace

// --- reading

std::string read_file(const fs::path& path, size_t limit, ErrorKind kind) {
  uint64_t size = 0;
  const Descriptor descriptor(open_regular(path, size, kind));
  std::string content(std::min<uint64_t>(size, limit) + 1, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const size_t n = read_some(descriptor.value, content.data() + filled, content.size() - filled,
                               static_cast<off_t>(filled), path, kind);
    if (n == 0) break;
    filled += n;
  }
  if (filled > limit) {
    booster::raise(kind, fmt::format("{}: too large; got {} bytes, want at most {}", path.string(),
                                     std::max<uint64_t>(size, filled), limit));
  }
  content.resize(filled);
  return content;
}

FileReader::FileReader(const fs::path& path) : path_(path) {
  descriptor_ = open_regular(path, size_, ErrorKind::data);
}
FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      hash_(other.hash_) {}
FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileReader::read(uint64_t offset, void* to, size_t bytes) const {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const size_t n = read_some(descriptor_, next, std::min(bytes, piece),
                               static_cast<off_t>(offset), path_, ErrorKind::data);
    if (n == 0) {
      fail_data("{}: the file got shorter while it was read; got {} bytes, want {}", path_.string(),
                offset, size_);
    }
    add(hash_, next, n);
    next += n;
    offset += n;
    bytes -= n;
  }
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error(read_fault(), std::generic_category());
  fs::directory_iterator entry, end;
  if (!error) entry = fs::directory_iterator(folder, error);
  for (; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
    if (const int fault = read_fault()) error.assign(fault, std::generic_category());
    if (error) break;
  }
  // A missing folder, or something else in its place, has no entries.
  const bool is_absent =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_absent) cannot("list", folder, error.value());
  return entries;
}

bool is_there(const fs::path& path) {
  std::error_code error(read_fault(), std::generic_category());
  const bool found = !error && fs::exists(fs::symlink_status(path, error));
  const bool is_absent =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_absent) cannot("look at", path, error.value());
  return found;
}

// --- writing

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  before_operation("create", path_);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) cannot("create", path_, errno);
  ::flock(descriptor_, LOCK_EX | LOCK_NB);
}
FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    before_operation("write", path_);
    const size_t wanted = std::min(bytes, piece);
    const ssize_t n = ::write(descriptor_, next, wanted);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot("write", path_, errno);
    add(hash_, next, static_cast<size_t>(n));
    next += n;
    written_ += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void FileWriter::sync() {
  before_operation("sync", path_);
  if (::fsync(descriptor_) != 0) cannot("sync", path_, errno);
}

void FileWriter::close() {
  sync();
  if (::close(std::exchange(descriptor_, -1)) != 0) cannot("close", path_, errno);
}

void check_free_space(const fs::path& folder, uint64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) cannot("query the free space of", folder, errno);
  const uint64_t available = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (available < bytes) {
    fail_run("{}: not enough space on the disk; got {} bytes free, want {}", folder.string(),
             available, bytes);
  }
}

}  // namespace booster
