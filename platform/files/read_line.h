// Lines of text with a limit, so that no input takes more memory than the longest legal line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>
#include <streambuf>
#include <string>
#include <system_error>

namespace booster {

// Opens a file to read lines from; the stream is not open unless the file is a regular one. The
// type is checked first: opening a pipe would wait for a writer, and a device may have no end.
inline std::ifstream open_regular(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? std::ifstream(path, std::ios::binary)
                                                       : std::ifstream();
}

// Reads the next line without its line break; returns false at the end. A line of more than
// `longest` bytes is cut after longest + 1, which marks it as too long; skip_line() skips its rest.
inline bool read_line(std::istream& from, std::string& line, size_t longest) {
  using Traits = std::istream::traits_type;
  line.clear();
  std::streambuf* bytes = from.rdbuf();
  bool any = false;
  while (line.size() <= longest) {
    const int next = bytes->sbumpc();
    if (next == Traits::eof()) return any;
    any = true;
    if (next == '\n') break;
    line += Traits::to_char_type(next);
  }
  return true;
}

inline void skip_line(std::istream& from) {
  from.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
}

}  // namespace booster
