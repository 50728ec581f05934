// Where tokenizers' classes of characters differ from today's Unicode: its tables are partly of
// Unicode 8, partly of Unicode 16 (scripts/unicode_differences.py). Thread-safe.
#pragma once

#include <span>
#include <string>

namespace booster::text {

struct CodeRange {
  char32_t first = 0;
  char32_t last = 0;
};

#define TABLE(name, ...) std::span<const CodeRange> name();
#include "core/text/unicode/unicode_differences.def"
#undef TABLE

bool is_in(std::span<const CodeRange> table, char32_t code);
// Returns the ranges as members of a class of a regular expression: "\x{41}-\x{5A}...".
std::string members_of_class(std::span<const CodeRange> table);

}  // namespace booster::text
