// Text from outside (file names, arguments, output of another process) made safe for a terminal.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

// Returns the text with everything escaped that a terminal would obey instead of show, such as
// "\x1b" or "\n": control characters, characters without width or that change the writing
// direction, and bytes that are not UTF-8.
std::string terminal_text(std::string_view text);

// As above for a line that a program printed on purpose: tabs and colours (ESC [ ... m) stay.
std::string terminal_line(std::string_view line);

// Applies terminal_text to each line; the line feeds stay.
std::string terminal_lines(std::string_view text);

}  // namespace booster
