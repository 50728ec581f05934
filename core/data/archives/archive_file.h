// The bytes of an archive. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster {

class ArchiveFile {
 public:
  // All errors of this class are of kind data.
  explicit ArchiveFile(const std::string& path);
  ~ArchiveFile();
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  bool holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  // Throws if the file ends too early.
  void read(uint64_t offset, void* to, size_t bytes) const;
  // Throws "archive 'PATH': WHAT".
  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Reads a number stored in a file with its low byte first.
template <class Number>
Number little_endian(const uint8_t* bytes) {
  Number value = 0;
  for (size_t i = sizeof value; i-- > 0;) value = static_cast<Number>(value << 8 | bytes[i]);
  return value;
}

}  // namespace booster
