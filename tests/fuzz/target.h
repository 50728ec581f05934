// Shared by the fuzz targets. A target is a function in its own file that libFuzzer or replay.cpp
// calls. A finding is an input that ends the process, makes it throw anything but an Error, or
// takes too much time or memory.
#pragma once

#include "platform/error.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace booster::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Removes and returns the part before the next zero byte, or all of the text if there is none.
inline std::string_view take_part(std::string_view& text) {
  const size_t end = text.find('\0');
  const std::string_view part = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return part;
}

// Checks what must hold for every input; a violation is a finding.
inline void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not kept: %s\n", what);
  std::abort();
}

// Returns true if the call returns, false if it refuses its input with an Error.
template <class Call>
bool accepts(Call&& call) {
  try {
    call();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns whether the text has no terminal control characters except line breaks.
inline bool is_plain(std::string_view text) {
  for (const char letter : text) {
    const bool controls = static_cast<unsigned char>(letter) < ' ' || letter == 0x7F;
    if (controls && letter != '\n') return false;
  }
  return true;
}

// A regular file that holds `content` and is never on disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    const ssize_t written = write(descriptor_, content.data(), content.size());
    promise(written == static_cast<ssize_t>(content.size()), "a file in memory can be written");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace booster::fuzz
