// Recognises what is not JSON where reading stopped: YAML, comments, single quotes, a comma too
// many, another encoding. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

inline constexpr std::string_view json_white_space = " \t\r\n";

struct ForeignSyntax {
  size_t offset = 0;    // of what is foreign
  std::string problem;  // "a comment; want none: JSON has no comments"; empty: not recognised
};

// `offset` is where a reader of JSON stopped.
ForeignSyntax foreign_syntax(std::string_view text, size_t offset);

// The encoding of a text that is not UTF-8, or that begins with a byte order mark, in words; empty
// for all others.
std::string foreign_encoding(std::string_view text);

}  // namespace booster
