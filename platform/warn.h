// Lines for the user on stderr. Thread-safe.
#pragma once

#include <string_view>

namespace booster {

// Writes the text and a line feed at once, with everything that a terminal would obey written out
// (terminal_lines). Where stderr is full or closed the text is lost, while fmt::print would throw:
// nobody's work ends for want of a place to speak of it.
void warn(std::string_view text) noexcept;

}  // namespace booster
