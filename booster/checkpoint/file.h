// Files that are complete or absent: reading with limits, and writing that a crash, a kill or a
// full disk cannot leave half done.
//
// New content is written to a temporary next to the target, fsynced and renamed, and the folder is
// fsynced. On failure the temporary is removed, the old state is untouched, and the error names the
// path and the system's reason. A temporary left by a killed process is removed by the next writer
// of the same target (temporaries in use are locked). Functions are thread-safe; objects belong to
// one thread.
#pragma once

#include "kernels/system/error.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace booster {

// The whole content of a regular file of at most `limit` bytes. Errors have the given `kind`.
std::string read_file(const std::filesystem::path& path, size_t limit,
                      ErrorKind kind = ErrorKind::data);

// A regular file's content, read-only, mapped for the life of the object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// One file, written in order and fsynced by close(). Creates `path`, which must not exist.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Replaces a file: write to writer(), then commit().
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  FileWriter& writer() { return writer_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileWriter writer_;
  bool committed_ = false;
};

// Creates or replaces a folder: fill path() with FileWriter, then commit().
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int lock_ = -1;  // tells other processes that the temporary is in use
  bool committed_ = false;
};

void write_file(const std::filesystem::path& path, std::string_view content);

// Creates the folder and its parents if they are missing.
void make_folders(const std::filesystem::path& path);

// True if this is the name of a temporary of AtomicFile or AtomicFolder.
bool is_temporary_name(std::string_view name);
// Removes the temporaries in `folder` whose name begins with `prefix` and whose writer is gone.
void remove_abandoned(const std::filesystem::path& folder, std::string_view prefix);

// Fails unless the disk that holds `folder` has that many bytes free.
void check_free_space(const std::filesystem::path& folder, uint64_t bytes);

// For tests: makes the n-th file operation from now on (create, write, fsync, rename) fail with
// `error`, or kills the process at that point if error is 0; n = 0 turns this off. The environment
// variable BOOSTER_FAIL_WRITE does the same from outside the process: "7", "7:EIO", "7:kill" (no
// name: ENOSPC).
void fail_file_operation(int64_t n, int error);

}  // namespace booster
