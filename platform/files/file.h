// Files that are complete or absent: reading with limits, and writing that a crash, a kill or a
// full disk cannot leave half done.
//
// New content is written to a temporary next to the target, fsynced and renamed, and the folder is
// fsynced. On failure the temporary is removed, the old state is untouched, and the error names the
// path and the system's reason. A temporary left by a killed process is removed by the next writer
// of the same target (temporaries in use are locked). Functions are thread-safe; objects belong to
// one thread.
#pragma once

#include "platform/error.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

class Sha256;

// The whole content of a regular file of at most `limit` bytes. Errors have the given `kind`; but
// instead of data it is failed where the file may be well and only could not be read now.
std::string read_file(const std::filesystem::path& path, size_t limit,
                      ErrorKind kind = ErrorKind::data);

// A regular file, read in pieces. Never mapped: a disk that cannot read a page, or a file that
// gets shorter, would be a signal instead of an error. Several threads may read.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Fills `to` from `offset` on. Error of kind data if the file ends before, of kind failed if it
  // cannot be read.
  void read(uint64_t offset, void* to, size_t bytes) const;
  // From now on what is read is added to `hash`, which must live as long.
  void hash_into(Sha256& hash) { hash_ = &hash; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  Sha256* hash_ = nullptr;
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
  void sync();   // what was written is on the disk
  void close();  // after a sync
  // From now on what is written is added to `hash`, which must live as long.
  void hash_into(Sha256& hash) { hash_ = &hash; }
  uint64_t written() const { return written_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t written_ = 0;
  Sha256* hash_ = nullptr;
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

// Creates or replaces a folder: fill path() with FileWriter, then commit(). A small file in it, the
// mark, tells it from a user's folder that happens to have such a name.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  void replace_target();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int lock_ = -1;  // tells other processes that the temporary is in use
  bool committed_ = false;
};

void write_file(const std::filesystem::path& path, std::string_view content);

// Creates the folder and its parents if they are missing; what it created outlives a crash.
void make_folders(const std::filesystem::path& path);

// True if this is the name of a temporary of AtomicFile or AtomicFolder.
bool is_temporary_name(std::string_view name);
// The file that says that AtomicFolder made the folder it is in.
inline constexpr const char* folder_mark = ".made-by-booster";
// True if AtomicFolder made this folder.
bool is_marked(const std::filesystem::path& folder);
// Where file systems cannot swap folders (NFS), a folder that is being replaced stands for a moment
// under this name; a kill in that moment leaves it there.
std::filesystem::path aside_of(const std::filesystem::path& folder);
// Clears up in `folder`, under names that begin with `prefix`, what killed writers left: removes
// their temporaries, and gives folders that they had set aside their names back.
void clear_up(const std::filesystem::path& folder, std::string_view prefix);

// The paths in a folder; none if there is no such folder. Error of kind failed if there may be one
// that cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
// Whether something stands at this path. Error of kind failed if the system cannot say.
bool is_there(const std::filesystem::path& path);

// Fails unless the disk that holds `folder` has that many bytes free.
void check_free_space(const std::filesystem::path& folder, uint64_t bytes);

// For tests: makes the n-th file operation from now on (create, write, fsync, rename) fail with
// `error`, or kills the process at that point if error is 0; n = 0 turns this off. The environment
// variable BOOSTER_FAIL_WRITE does the same from outside the process: "7", "7:EIO", "7:kill" (no
// name: ENOSPC).
void fail_file_operation(int64_t n, int error);
// For tests: makes the n-th operation that reads from now on (list, stat, open, read) fail with
// `error`; n = 0 turns this off.
void fail_file_read(int64_t n, int error);
// For tests: every file operation from now on takes this long, as on a slow disk.
void delay_file_operations(int milliseconds);
// For tests: as on a file system that cannot swap folders.
void forbid_exchange(bool forbidden);

}  // namespace booster
