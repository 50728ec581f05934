// A library for LD_PRELOAD that makes one system call on files fail, or kills the process there.
//   FAIL_UNDER=FOLDER FAIL_AT=N FAIL_WITH=ERROR LD_PRELOAD=failing_calls.so program
// Counts the calls that change something in or below FOLDER; the N-th fails with the error number
// ERROR, or kills the process if that is 0. FAIL_NOTE=FILE gets a line about it.
// Both pwrite and pwrite64 are defined here, so one must not stand for the other.
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls = 0;

long number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atol(text) : 0;
}

bool is_under(const char* path) {
  static const char* const folder = std::getenv("FAIL_UNDER");
  if (!folder || !path) return false;
  const size_t length = std::strlen(folder);
  return std::strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

bool is_under(int file) {
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return is_under(path);
}

void note(const char* call, long number) {
  const char* path = std::getenv("FAIL_NOTE");
  if (!path) return;
  const auto file = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  char line[128];
  const int length = std::snprintf(line, sizeof line, "%s, call %ld\n", call, number);
  ::syscall(SYS_write, file, line, length);
  ::syscall(SYS_close, file);
}

// Returns true, with errno set, if this call is to fail.
bool fails(const char* call) {
  static const long at = number_of("FAIL_AT"), with = number_of("FAIL_WITH");
  const long number = ++calls;
  if (number != at) return false;
  note(call, number);
  if (with == 0) ::kill(::getpid(), SIGKILL);
  errno = static_cast<int>(with);
  return true;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// CALL(result, name, parameters, arguments, what says whether the call counts)
#define CALL(result, name, parameters, arguments, counts)                       \
  extern "C" result name parameters {                                           \
    static auto* const real = next<result parameters>(#name);                   \
    return (counts) && fails(#name) ? static_cast<result>(-1) : real arguments; \
  }

CALL(ssize_t, write, (int file, const void* data, size_t n), (file, data, n), is_under(file))
CALL(ssize_t, pwrite, (int file, const void* data, size_t n, off_t at), (file, data, n, at),
     is_under(file))
CALL(ssize_t, pwrite64, (int file, const void* data, size_t n, off64_t at), (file, data, n, at),
     is_under(file))
CALL(int, fsync, (int file), (file), is_under(file))
CALL(int, ftruncate, (int file, off_t n), (file, n), is_under(file))
CALL(int, ftruncate64, (int file, off64_t n), (file, n), is_under(file))
CALL(int, mkdir, (const char* path, mode_t mode), (path, mode), is_under(path))
CALL(int, rename, (const char* from, const char* to), (from, to), is_under(to))
CALL(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags),
     (a, from, b, to, flags), is_under(to))
CALL(int, symlink, (const char* target, const char* path), (target, path), is_under(path))
CALL(int, unlink, (const char* path), (path), is_under(path))
CALL(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags),
     is_under(folder) || is_under(path))
CALL(int, remove, (const char* path), (path), is_under(path))

#define OPEN(name)                                                                             \
  extern "C" int name(const char* path, int flags, ...) {                                      \
    static auto* const real = next<int(const char*, int, ...)>(#name);                         \
    va_list rest;                                                                              \
    va_start(rest, flags);                                                                     \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;              \
    va_end(rest);                                                                              \
    return (flags & O_CREAT) && is_under(path) && fails(#name) ? -1 : real(path, flags, mode); \
  }

OPEN(open)
OPEN(open64)
