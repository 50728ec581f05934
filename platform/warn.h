// Lines for the user: warnings on stderr, text made safe for a terminal, and notes to print later.
// warn and the functions on text are thread-safe; a NoteTaker is for one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

// --- Lines for the user on stderr. Thread-safe.

// Writes the text and a line feed in one call. Escapes everything that a terminal would obey
// (terminal_lines). If stderr is full or closed the text is lost. fmt::print would throw then, but
// a lost message must not end the work.
void warn(std::string_view text) noexcept;

// --- Text from outside (file names, arguments, output of another process) made safe for a
// terminal. Thread-safe.

// Returns the text with everything escaped that a terminal would obey instead of show, such as
// "\x1b" or "\n". It escapes control characters, characters that have no width or change the
// writing direction, and bytes that are not UTF-8.
std::string terminal_text(std::string_view text);

// Does the same for a line that a program printed on purpose: keeps tabs and colours (ESC [ ... m).
std::string terminal_line(std::string_view line);

// Applies terminal_text to each line; the line feeds stay.
std::string terminal_lines(std::string_view text);

// --- NoteTaker: messages of a strategy or a plugin for the user, kept until a caller that knows
// the rank prints them.

class NoteTaker {
 public:
  // Returns one sentence each, in the order of add_note. A sentence begins with the name of its
  // author: "fp16_naive: overflow: step skipped".
  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  void add_note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace booster
