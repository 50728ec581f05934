// Files that are complete or absent: reads with limits, and writes that a crash, a kill or a full
// disk cannot leave half done.
//
// New content goes to a temporary next to the target. It is fsynced and renamed, and the folder is
// fsynced. On failure the temporary is removed, the old state is untouched, and the error names the
// path and the system's reason. The next writer of the same target removes a temporary that a
// killed process left (temporaries in use are locked). Functions are thread-safe; objects belong to
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
  // Adds everything read from now on to `hash`, which must live as long as this.
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
  void sync();   // returns once the written bytes are on the disk
  void close();  // after a sync
  // Adds everything written from now on to `hash`, which must live as long as this.
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
// mark, distinguishes it from a user's folder that happens to have such a name.
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
  int lock_ = -1;  // shows other processes that the temporary is in use
  bool committed_ = false;
};

void write_file(const std::filesystem::path& path, std::string_view content);

// Removes a folder so that no reader finds a part of it under its name, not even after a kill or a
// power cut: it is renamed first. What cannot be removed now is left for clear_up.
void remove_folder(const std::filesystem::path& folder);

// Creates the folder and its missing parents; the folders it creates survive a crash.
void make_folders(const std::filesystem::path& path);

// Returns true if this is the name of a temporary of AtomicFile or AtomicFolder.
bool is_temporary_name(std::string_view name);
// The file that marks a folder as made by AtomicFolder.
inline constexpr const char* folder_mark = ".made-by-booster";
// Returns true if AtomicFolder made this folder.
bool is_marked(const std::filesystem::path& folder);
// Returns the name that a folder has briefly while it is being replaced, on file systems that
// cannot swap folders (NFS). A kill at that moment leaves the folder under this name.
std::filesystem::path aside_of(const std::filesystem::path& folder);
// Cleans up after killed writers in `folder`, among names that begin with `prefix`. Removes their
// temporaries and gives folders that they had set aside their names back.
void clear_up(const std::filesystem::path& folder, std::string_view prefix);

// Returns the paths in a folder, none if there is no such folder. Throws an Error of kind failed if
// a folder may exist but cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
// Returns whether this path exists. Throws an Error of kind failed if the system cannot say.
bool is_there(const std::filesystem::path& path);

// Throws unless the disk that holds `folder` has at least `bytes` bytes free.
void check_free_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace booster
