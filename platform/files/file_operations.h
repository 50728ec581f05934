// The system calls that file.cpp and atomic_file.cpp are made of, each with its error; for the
// files of this room only. Thread-safe.
#pragma once

#include "platform/error.h"

#include <unistd.h>

#include <filesystem>
#include <string>

namespace booster {

// "No space left on device (ENOSPC)"
std::string reason(int error);
[[noreturn]] void cannot(const char* what, const std::filesystem::path& path, int error);

// To be called before every operation that changes the disk: where tests let it fail.
void before_operation(const char* what, const std::filesystem::path& path);

// To be called before every operation that only reads: the error that tests want it to have, or 0.
int injected_read_error();

// What a failed read says: that a file is not there is known of the data then (kind data); anything
// else (no permission, no descriptors, a server that is away) says nothing of it (kind failed).
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
// Swaps two folders atomically; false on file systems that cannot (NFS).
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace booster
