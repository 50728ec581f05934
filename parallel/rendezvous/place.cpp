#include "parallel/rendezvous/place.h"

#include "platform/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace booster {

namespace {

constexpr off_t longest_text = 1 << 20;

// Purposes of locks on a byte of the file. A holder's lock must differ from the lock of a process
// that removes a dead holder's file.
enum class For : off_t { holding = 0, clearing = 1 };

struct flock lock_for(For purpose) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(purpose);
  lock.l_len = 1;
  return lock;
}

bool try_lock(int file, For purpose) {
  struct flock lock = lock_for(purpose);
  return fcntl(file, F_SETLK, &lock) == 0;
}

// Returns the holder of the lock: 0 for a process in another PID namespace; nothing if there is
// none.
std::optional<pid_t> locker(int file) {
  struct flock lock = lock_for(For::holding);
  if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

// O_NONBLOCK: opening a named pipe does not wait.
int open_private(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat found = {};
  if (file < 0) return -1;
  if (fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
      found.st_size <= longest_text)
    return file;
  close(file);
  return -1;
}

std::optional<std::string> text_of(int file) {
  struct stat found = {};
  if (fstat(file, &found) != 0 || found.st_size > longest_text) return std::nullopt;
  std::string text(static_cast<size_t>(found.st_size), '\0');
  const ssize_t bytes = pread(file, text.data(), text.size(), 0);
  if (bytes < 0) return std::nullopt;
  text.resize(static_cast<size_t>(bytes));
  return text;
}

bool is_at(const std::string& path, int file) {
  struct stat opened = {}, named = {};
  return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

std::optional<Place> Place::take(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  bool written = file >= 0 && try_lock(file, For::holding) &&
                 write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  written = written && link(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (file >= 0) unlink(temporary.c_str());
  if (written) return Place(file, std::string(text));
  if (file >= 0) close(file);
  if (error == EEXIST || error == ENOENT) return std::nullopt;
  fail_run("rendezvous: cannot write {}: {}", path, std::strerror(error));
}

std::optional<Place> Place::look(const std::string& path) {
  const int file = open_private(path, O_RDWR);
  if (file < 0) return std::nullopt;
  auto text = text_of(file);
  if (text) return Place(file, std::move(*text));
  close(file);
  return std::nullopt;
}

// Holds the file's second lock, so that no other process removes the file between our check and our
// unlink. A file that a new holder has linked there meanwhile is a different file.
void Place::clear(const std::string& path) {
  const int file = open_private(path, O_RDWR);
  if (file < 0) return;
  if (try_lock(file, For::clearing) && !locker(file) && is_at(path, file)) unlink(path.c_str());
  close(file);
}

Place::Place(Place&& other) noexcept
    : file_(std::exchange(other.file_, -1)), text_(std::move(other.text_)) {}

Place& Place::operator=(Place&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(text_, other.text_);
  return *this;
}

Place::~Place() {
  if (file_ >= 0) close(file_);
}

std::optional<pid_t> Place::holder() const { return locker(file_); }

bool is_private_folder(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == geteuid() && (found.st_mode & 077) == 0;
}

std::optional<std::string> read_private(const std::string& path) {
  const int file = open_private(path, O_RDONLY);
  if (file < 0) return std::nullopt;
  auto text = text_of(file);
  close(file);
  return text;
}

}  // namespace booster
