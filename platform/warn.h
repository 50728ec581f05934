// Lines for the user on stderr. Thread-safe.
#pragma once

#include <string_view>

namespace booster {

// Writes the text and a line feed at once, with everything escaped that a terminal would obey
// (terminal_lines). If stderr is full or closed the text is lost. fmt::print would throw then, but
// a lost message must not end the work.
void warn(std::string_view text) noexcept;

}  // namespace booster
