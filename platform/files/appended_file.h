// A file that grows by whole pieces while others read it, such as a log or an event file. For one
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace booster {

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
  // Returns once what was appended, and the file's name, are on the disk.
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
