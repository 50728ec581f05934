// Text from outside (names of files, arguments, what another process wrote) made fit for a
// terminal. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

// The text with everything that a terminal would obey rather than show written out, such as "\x1b"
// or "\n": control characters, characters that turn the direction of writing or have no width, and
// bytes that are not UTF-8.
std::string terminal_text(std::string_view text);

// The same for a line that a program printed on purpose: tabs and colours (ESC [ ... m) stay.
std::string terminal_line(std::string_view line);

// terminal_text of each line; the line feeds between them stay.
std::string terminal_lines(std::string_view text);

}  // namespace booster
