// Writes that a crash, a kill or a full disk cannot leave half done, and what they need of folders.
// file.h says how they work. Functions are thread-safe; objects belong to one thread.
#pragma once

#include "platform/files/file.h"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace booster {

// Writes one file in order; close() fsyncs it. Creates `path`, which must not exist.
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
  // Adds everything written from now on to `hash`, which must outlive this object.
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
  // Creates the folder, without the mark: it is the user's from now on. Returns false, and changes
  // nothing, if something of that name exists by now.
  bool commit_new();

 private:
  void replace_target();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int lock_ = -1;  // shows other processes that the temporary is in use
  bool committed_ = false;
};

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
// temporaries, and renames folders that they had set aside to their original names.
void clear_up(const std::filesystem::path& folder, std::string_view prefix);

// Returns the paths in a folder, none if there is no such folder. Throws an Error of kind failed if
// a folder may exist but cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
// Returns whether this path exists. Throws an Error of kind failed if the system cannot say.
bool is_there(const std::filesystem::path& path);

// Throws unless the disk that holds `folder` has at least `bytes` bytes free.
void check_free_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace booster
