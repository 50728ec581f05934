// Lines of text with a limit, so that no input takes more memory than the longest legal line.
#pragma once

#include <cstddef>
#include <istream>
#include <limits>
#include <streambuf>
#include <string>

namespace booster {

// Reads the next line without its end; false if there is none. A line of more than `longest` bytes
// is cut after longest + 1, which tells that it is too long; skip_line() goes on behind it.
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
