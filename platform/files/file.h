// Files: reads with limits, files that are complete or absent, and files that grow.
//
// A crash, a kill or a full disk leaves no file half written. New content goes to a temporary next
// to the target. It is fsynced and renamed, and the folder is fsynced. On failure the temporary is
// removed, the old state is untouched, and the error names the path and the system's reason. The
// next writer of the same target removes a temporary that a killed process left (temporaries in use
// are locked). Functions are thread-safe; objects belong to one thread.
#pragma once

#include "platform/error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace booster {

class Sha256;

// Returns the whole content of a regular file of at most `limit` bytes. Errors have the given
// `kind`. Exception: kind data becomes failed if the file may be intact and only could not be read
// now.
std::string read_file(const std::filesystem::path& path, size_t limit,
                      ErrorKind kind = ErrorKind::data);

// A regular file, read in pieces. It is never mapped: with a mapping, an unreadable page or a file
// that shrinks would raise a signal instead of an error. Several threads may read.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Fills `to` from `offset` on. Throws an Error of kind data if the file ends too early, of kind
  // failed if it cannot be read.
  void read(uint64_t offset, void* to, size_t bytes) const;
  // Adds everything read from now on to `hash`, which must outlive this object.
  void hash_into(Sha256& hash) { hash_ = &hash; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  Sha256* hash_ = nullptr;
};

// Creates or replaces a file.
void write_file(const std::filesystem::path& path, std::string_view content);

// Removes a folder so that no reader finds a part of it under its name, not even after a kill or a
// power cut: it is renamed first. What cannot be removed now is left for clear_up.
void remove_folder(const std::filesystem::path& folder);

// Creates the folder and its missing parents; the folders it creates survive a crash.
void make_folders(const std::filesystem::path& path);

// A file that grows by whole pieces while others read it, such as a log or an event file. For one
// thread.
class AppendedFile {
 public:
  // new_file: the file must not exist yet. at_end: appends to the existing content.
  enum class Start { new_file, at_end };
  // Opens the file. All errors of this class are of kind failed and name the path and the system's
  // reason.
  AppendedFile(const std::filesystem::path& path, Start start);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // Appends all of the piece or, if it throws, nothing.
  void append(std::string_view piece);
  // Waits until the appended data, and the file's name, are on the disk.
  void sync();
  // Returns true if the path no longer names this file: it was removed or replaced.
  bool is_lost() const;
  // Truncates the file to its first `bytes` bytes.
  void keep(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
  bool is_named_ = false;  // the name is on the disk
};

}  // namespace booster
