// Recognises foreign syntax at the place where reading of JSON stopped: YAML, comments, single
// quotes, a surplus comma, another encoding. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

inline constexpr std::string_view json_white_space = " \t\r\n";

struct ForeignSyntax {
  size_t offset = 0;    // of the foreign syntax
  std::string problem;  // "a comment; want none: JSON has no comments"; empty: not recognised
};

// `offset` is where a JSON reader stopped.
ForeignSyntax foreign_syntax(std::string_view text, size_t offset);

// Returns the name of the encoding if the text is not UTF-8 or begins with a byte order mark, else
// "".
std::string foreign_encoding(std::string_view text);

}  // namespace booster
