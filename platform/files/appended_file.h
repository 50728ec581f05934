// A file that grows by whole pieces while others read it: a log, an event file. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace booster {

class AppendedFile {
 public:
  // A new one must not be there yet; the other goes on behind what the file has.
  enum class Start { new_file, at_end };
  // Errors, here and below, are of kind failed and name the path and the system's reason.
  AppendedFile(const std::filesystem::path& path, Start start);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // All of it or, after an Error, nothing.
  void append(std::string_view piece);
  // What lies behind the first `bytes` is dropped.
  void keep(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace booster
