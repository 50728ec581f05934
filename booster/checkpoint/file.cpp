#include "booster/checkpoint/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

namespace booster {

namespace fs = std::filesystem;

namespace {

std::string reason(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error",
                     name ? name : std::to_string(error));
}

[[noreturn]] void cannot(const char* what, const fs::path& path, int error) {
  fail_run("{}: cannot {}: {}", path.string(), what, reason(error));
}

// --- injected failures

struct InjectedFailure {
  std::atomic<int64_t> operations_left{0};  // 0: off
  std::atomic<int> error{0};

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

// Called before every operation that changes the disk.
void before(const char* what, const fs::path& path) {
  auto& failure = injected();
  if (failure.operations_left == 0 || --failure.operations_left > 0) return;
  if (failure.error == 0) ::raise(SIGKILL);
  cannot(what, path, failure.error);
}

// --- system calls

// An open descriptor, closed at the end of the scope.
struct Descriptor {
  int value;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
};

const char* file_type(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  return "a socket";
}

// Opens a regular file and sets its size. Non-blocking, so that a pipe is refused instead of waited
// for.
int open_regular(const fs::path& path, size_t& size, ErrorKind kind) {
  const auto refuse = [&](const std::string& why) {
    booster::raise(kind, path.string() + ": " + why);
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse("cannot open: " + reason(errno));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    refuse(fmt::format("cannot read; got {}, want a regular file", file_type(status.st_mode)));
  }
  size = static_cast<size_t>(status.st_size);
  return descriptor;
}

void sync_folder(const fs::path& folder) {
  before("sync the folder", folder);
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.value < 0) cannot("open the folder", folder, errno);
  // Some file systems cannot sync a folder and return EINVAL: there is nothing more to do.
  if (::fsync(descriptor.value) != 0 && errno != EINVAL) cannot("sync the folder", folder, errno);
}

void rename_to(const fs::path& from, const fs::path& to) {
  before("rename to", to);
  if (::rename(from.c_str(), to.c_str()) != 0) cannot("rename to", to, errno);
}

// Swaps two folders atomically, or in three steps on file systems that cannot (NFS).
void exchange(const fs::path& a, const fs::path& b) {
  before("replace", b);
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) cannot("replace", b, errno);
  const fs::path aside = b.string() + ".aside";
  rename_to(b, aside);
  rename_to(a, b);
  rename_to(aside, a);
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

constexpr std::string_view temporary_mark = ".tmp-";

// "NAME" -> "NAME.tmp-0123abcd"
fs::path temporary_for(const fs::path& target) {
  std::random_device random;
  return fmt::format("{}{}{:08x}", target.string(), temporary_mark, random() & 0xFFFFFFFFu);
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

void fail_file_operation(int64_t n, int error) {
  injected().error = error;
  injected().operations_left = n;
}

// --- reading

std::string read_file(const fs::path& path, size_t limit, ErrorKind kind) {
  size_t size = 0;
  const Descriptor descriptor(open_regular(path, size, kind));
  std::string content(std::min(size, limit) + 1, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t n = ::read(descriptor.value, content.data() + filled, content.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) booster::raise(kind, path.string() + ": cannot read: " + reason(errno));
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  if (filled > limit) {
    booster::raise(kind, fmt::format("{}: too large; got {} bytes, want at most {}", path.string(),
                                     std::max(size, filled), limit));
  }
  content.resize(filled);
  return content;
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor descriptor(open_regular(path, size_, ErrorKind::data));
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (data == MAP_FAILED) fail_data("{}: cannot map: {}", path.string(), reason(errno));
  data_ = static_cast<const std::byte*>(data);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}
MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

// --- writing

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  before("create", path_);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) cannot("create", path_, errno);
  ::flock(descriptor_, LOCK_EX | LOCK_NB);
}
FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(const void* data, size_t bytes) {
  constexpr size_t piece = size_t{64} << 20;
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    before("write", path_);
    const ssize_t n = ::write(descriptor_, next, std::min(bytes, piece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot("write", path_, errno);
    next += n;
    bytes -= static_cast<size_t>(n);
  }
}

void FileWriter::close() {
  before("sync", path_);
  if (::fsync(descriptor_) != 0) cannot("sync", path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) cannot("close", path_, errno);
}

AtomicFile::AtomicFile(const fs::path& target)
    : target_((remove_abandoned(parent_of(target), target.filename().string()), target)),
      temporary_(temporary_for(target)),
      writer_(temporary_) {}
AtomicFile::~AtomicFile() {
  if (!committed_) remove_quietly(temporary_);
}
void AtomicFile::commit() {
  writer_.close();
  rename_to(temporary_, target_);
  committed_ = true;
  sync_folder(parent_of(target_));
}

AtomicFolder::AtomicFolder(const fs::path& target)
    : target_(target), temporary_(temporary_for(target)) {
  remove_abandoned(parent_of(target), target.filename().string());
  before("create the folder", temporary_);
  if (::mkdir(temporary_.c_str(), 0777) != 0) cannot("create the folder", temporary_, errno);
  lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
}
AtomicFolder::~AtomicFolder() {
  if (!committed_) remove_quietly(temporary_);
  if (lock_ >= 0) ::close(lock_);
}
void AtomicFolder::commit() {
  sync_folder(temporary_);
  if (!fs::exists(fs::symlink_status(target_))) {
    rename_to(temporary_, target_);
    committed_ = true;
  } else {
    // Atomic, so that the target is a complete folder at every moment; the destructor removes the
    // old one, which now has the temporary's name.
    exchange(temporary_, target_);
  }
  sync_folder(parent_of(target_));
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.writer().write(content);
  file.commit();
}

void make_folders(const fs::path& path) {
  before("create the folder", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) cannot("create the folder", path, error.value());
  if (!fs::is_directory(path))
    fail_run("{}: cannot create the folder; a file stands there", path.string());
}

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(temporary_mark);
  if (mark == name.npos) return false;
  const std::string_view digits = name.substr(mark + temporary_mark.size());
  return digits.size() == 8 && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

void remove_abandoned(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.substr(0, prefix.size()) != prefix || !is_temporary_name(name)) continue;
    const Descriptor descriptor(
        ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (descriptor.value < 0 || ::flock(descriptor.value, LOCK_EX | LOCK_NB) != 0) continue;
    remove_quietly(entry.path());
  }
}

void check_free_space(const fs::path& folder, uint64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) cannot("ask the free space of", folder, errno);
  const uint64_t available = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (available < bytes) {
    fail_run("{}: not enough space on the disk; got {} bytes free, want {}", folder.string(),
             available, bytes);
  }
}

}  // namespace booster
