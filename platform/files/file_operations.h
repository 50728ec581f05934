// The system calls that file.cpp and atomic_file.cpp use, each with its error; internal to this
// folder. Thread-safe.
#pragma once

#include "platform/error.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace booster {

// Returns "No space left on device (ENOSPC)"
std::string reason(int error);
[[noreturn]] void cannot(const char* what, const std::filesystem::path& path, int error);

// Hooks that a test installs between this folder and the file system. Both functions return an
// error number, 0 for none.
class FileFaults {
 public:
  virtual ~FileFaults() = default;
  virtual int changing() = 0;  // called before every operation that changes the disk
  virtual int reading() = 0;   // called before every operation that only reads
  virtual bool swaps_folders() = 0;
};
// Null in every program.
inline std::atomic<FileFaults*> file_faults{nullptr};

// Throws if a test makes the operation fail. Called before every operation that changes the disk.
void before_operation(const char* what, const std::filesystem::path& path);

// Returns the error that a test gives an operation that only reads, 0 for none.
inline int read_fault() {
  FileFaults* const faults = file_faults;
  return faults ? faults->reading() : 0;
}

// Returns the kind of error for a failed read. A missing file is a fact about the data (kind data).
// Other errors (no permission, no descriptors, an unreachable server) say nothing about it (kind
// failed).
ErrorKind kind_of_read_error(int error);

// An open descriptor, closed at the end of the scope.
struct Descriptor {
  int value;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
};

void sync_folder(const std::filesystem::path& folder);
void rename_to(const std::filesystem::path& from, const std::filesystem::path& to);
// Returns false if `to` exists. File systems that cannot tell (NFS) replace an empty folder.
bool rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);
// Swaps two folders atomically; returns false on file systems that cannot (NFS).
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace booster
